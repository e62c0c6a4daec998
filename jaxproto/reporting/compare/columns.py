"""Columns of a comparison: measured numbers, costs and the numbers of papers."""

import operator
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from jaxproto.errors import UserError
from jaxproto.reporting.compare import measures, paper_cells, targets
from jaxproto.reporting.compare.measures import AVERAGES, SPREAD, Measure, mean_and_std
from jaxproto.reporting.compare.paper_numbers import ACCURACY, COST, PAPERS
from jaxproto.reporting.compare.paper_rules import PublishedRule, published_rule
from jaxproto.reporting.compare.run_groups import SeedGroup
from jaxproto.storage.run_folder import SUMMARY, RunFolder

MISSING = "-"
KINDS = ("metric", "published", "bytes", "seconds")  # values of --columns
METRIC, PUBLISHED, BYTES, SECONDS = KINDS
TARGET, TEST, RANK = "target", "test", "rank"  # added by flags of their own
PRIVACY = "privacy"  # added where a run has an entry of privacy


class Part(NamedTuple):
    """A number as it is printed, or a word."""

    text: str
    std: str = ""  # over seeds
    source: str = ""  # paper and table

    def __str__(self):
        """Returns such as `86.02 ± 0.38 (TinyProto, Table 1)`."""
        spread = SPREAD + self.std if self.std else ""
        return f"{self.text}{spread}{f' ({self.source})' if self.source else ''}"


class CellValue(NamedTuple):
    """A cell: what is printed, and the numbers behind it by seed."""

    parts: tuple[Part, ...] = ()
    values: Mapping[int, float] = {}

    @property
    def text(self) -> str:
        """The cell as readers see it."""
        return "; ".join(map(str, self.parts)) or MISSING

    @property
    def mean(self) -> float | None:
        """The number as printed, so that equal texts rank the same."""
        return float(self.parts[0].text.replace(",", "")) if self.parts else None


def entry(text: str) -> CellValue:
    """Returns a cell of one number or word."""
    return CellValue((Part(text),))


class Column(NamedTuple):
    """A column with an entry in every row."""

    title: str
    dataset: str  # "" if the table has only one
    kind: str
    entries: tuple[CellValue, ...]
    better: int = 0  # 1: larger is better, -1: smaller, 0: neither

    @property
    def name(self) -> str:
        """The title after the data set."""
        return f"{self.dataset} {self.title}" if self.dataset else self.title


class TableRequest(NamedTuple):
    """The options of a table."""

    rules: Sequence[str]
    statistics: Sequence[str]
    measures: Sequence[Measure]  # one per average
    kinds: Sequence[str] = KINDS
    target: float | None = None  # in the unit of the measures


Fill = Callable[[SeedGroup], CellValue]
Titled = dict[str, tuple[int, Fill]]  # title -> `Column.better`, entry of a row


def dataset_columns(
    dataset: str, rows: Sequence[SeedGroup | None], asked: TableRequest, several: bool
) -> list[Column]:
    """Returns the columns of one data set.

    Args:
      dataset: its name.
      rows: the group of every row, None where a row has none on this data set.
      asked: the options of the table.
      several: whether the table has other data sets.
    """
    groups = [g for g in rows if g is not None]
    makers: dict[str, Callable[[Sequence[SeedGroup], TableRequest], Titled]] = {
        METRIC: _metric,
        TARGET: _target,
        PRIVACY: _privacy,
        PUBLISHED: _published,
        BYTES: _bytes,
        SECONDS: _seconds,
    }
    label = dataset if several else ""
    return [
        Column(
            title, label, kind, tuple(fill(g) if g else CellValue() for g in rows), sign
        )
        for kind, maker in makers.items()
        if kind in (*asked.kinds, TARGET, PRIVACY)
        for title, (sign, fill) in maker(groups, asked).items()
    ]


def _metric(groups: Sequence[SeedGroup], asked: TableRequest) -> Titled:
    """Returns a column per rule, statistic and average; titles name what differs."""
    many = len(asked.statistics) > 1
    return {
        f"{rule}{measure.name}{f' {name}' * many}{measure.word}{measure.unit}": (
            measure.better,
            partial(measured, rule=rule, statistic=name, measure=measure),
        )
        for rule in _rules(groups, asked)
        for name in asked.statistics
        for measure in asked.measures
    }


def _rules(groups: Sequence[SeedGroup], asked: TableRequest) -> list[str]:
    """Returns the rules of the table that a run on this data set has."""
    metric = asked.measures[0].metric
    have = {k for g in groups for r in g.finished for k in measures.rules(r, metric)}
    return [rule for rule in asked.rules if rule in have]


def measured(
    group: SeedGroup, rule: str, statistic: str, measure: Measure
) -> CellValue:
    """Returns mean and standard deviation over seeds."""
    return _over_seeds(
        measures.values(group, rule, statistic, measure), measure.form, measure.ddof
    )


def _over_seeds(values: Mapping[int, float], form: str, ddof: int) -> CellValue:
    if not values:
        return CellValue()
    return CellValue((Part(*mean_and_std([*values.values()], form, ddof)),), values)


def _target(groups: Sequence[SeedGroup], asked: TableRequest) -> Titled:
    """Returns rounds and bytes until the target."""
    if asked.target is None:
        return {}
    return {
        targets.column_title(rule, name, asked.target, measure): (
            -1,
            partial(
                _until, reach=(rule, measure, asked.target), count=count, form=form
            ),
        )
        for rule in _rules(groups, asked)
        for measure in asked.measures
        for name, form, count in targets.COUNTS
    }


def _until(
    group: SeedGroup, reach: tuple[str, Measure, float], count: Callable, form: str
) -> CellValue:
    """Returns rounds or bytes until the target; empty unless every seed reached it."""
    values = {}
    for run in group.finished:
        record = targets.first_reaching(run, *reach)
        number = None if record is None else count(record)
        if number is None:
            return CellValue()
        values[run.config["seed"]] = number
    return _over_seeds(values, form, reach[1].ddof)


PRIVACY_COLUMNS = {  # title -> entry of the summary, format
    "privacy of a": ("unit", "s"),
    "epsilon": ("epsilon", ".2f"),
    "delta": ("delta", "g"),
}


def _privacy(groups: Sequence[SeedGroup], asked: TableRequest) -> Titled:
    """Returns unit, epsilon and delta; the largest over seeds."""

    def largest(group: SeedGroup, key: str, form: str) -> CellValue:
        privacy = (r.results.get("privacy") for r in group.finished)
        values = [one[key] for one in privacy if one is not None]
        return entry(format(max(values), form)) if values else CellValue()

    private = any("privacy" in r.results for g in groups for r in g.finished)
    return {
        title: (0, partial(largest, key=key, form=form))
        for title, (key, form) in PRIVACY_COLUMNS.items()
        if private
    }


def _published(groups: Sequence[SeedGroup], asked: TableRequest) -> Titled:
    """Returns the papers' accuracies of the same cells, and our best by their rule."""
    if not any(_printed(g).parts for g in groups):
        return {}
    return {
        "published by": (
            0,
            lambda g: CellValue(tuple(Part(str(r)) for r in _judged(g))),
        ),
        "best by it %": (0, partial(_best, ddof=asked.measures[0].ddof)),
        "published %": (0, _printed),
    }


def _bytes(groups: Sequence[SeedGroup], asked: TableRequest) -> Titled:
    """Returns bytes of a round; also scalars where a paper prints them."""
    scalars: Titled = {}
    if any(_printed(g, COST).parts for g in groups):
        scalars = {
            "M/round": (0, partial(_mean, of=_millions, form=".3f")),
            "published M/round": (0, partial(_printed, metrics=COST)),
        }
    return scalars | {"kB/round": (0, partial(_mean, of=_kilobytes, form=",.1f"))}


def _seconds(groups: Sequence[SeedGroup], asked: TableRequest) -> Titled:
    of = operator.itemgetter("seconds_per_round")
    return {"s/round": (0, partial(_mean, of=of, form=".2f"))}


def _kilobytes(summary: Mapping) -> float:
    return sum(summary["bytes_per_round"].values()) / 1e3


def _millions(summary: Mapping) -> float | None:
    """Returns scalars by the papers' formula."""
    nominal = summary["scalars_per_round"]["nominal"]
    return nominal and nominal / 1e6


def _mean(
    group: SeedGroup, of: Callable[[Mapping], float | None], form: str
) -> CellValue:
    values = [_number(run, of) for run in group.finished]
    known = [value for value in values if value is not None]
    return entry(format(statistics.fmean(known), form)) if known else CellValue()


def _number(run: RunFolder, of: Callable[[Mapping], float | None]) -> float | None:
    try:
        return of(run.results)
    except (KeyError, TypeError, AttributeError) as e:
        raise UserError(
            f"{run.path / SUMMARY} lacks a number of the table ({e}). Leave "
            "this run out."
        ) from e


def _judged(group: SeedGroup) -> list[PublishedRule]:
    """Returns the rules of the papers' accuracies of a cell."""
    rows = paper_cells.published_for(group.config, group.dataset)
    return list(dict.fromkeys(map(published_rule, rows)))


def _best(group: SeedGroup, ddof: int) -> CellValue:
    """Returns our best round by the rule of each published accuracy."""
    options = {key: option for option, key in AVERAGES.items()}
    by_rule = [
        measured(group, rule, "best", Measure(average=options[average], ddof=ddof))
        for rule, average in _judged(group)
    ]
    return CellValue(tuple(part for best in by_rule for part in best.parts))


def _printed(group: SeedGroup, metrics: Sequence[str] = ACCURACY) -> CellValue:
    """Returns the papers' numbers of the same cell."""
    rows = paper_cells.published_for(group.config, group.dataset, metrics)
    parts = (
        Part(row.mean, row.std, f"{PAPERS[row.source]}, Table {row.table}")
        for row in rows
    )
    return CellValue(tuple(dict.fromkeys(parts)))

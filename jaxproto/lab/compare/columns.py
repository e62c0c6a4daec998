"""Columns of a comparison: measured numbers, costs and the numbers of papers."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from jaxproto.errors import UserError
from jaxproto.lab.compare import measures, targets
from jaxproto.lab.compare.measures import AVERAGES, SPREAD, Measure
from jaxproto.lab.compare.run_groups import SeedGroup
from jaxproto.papers import cells as paper_cells
from jaxproto.papers.numbers import ACCURACY, COST
from jaxproto.papers.rules import PublishedRule, published_rule
from jaxproto.storage.run_folder import SUMMARY, RunFolder
from jaxproto.summary.table_formats import MISSING

KINDS = ("metric", "published", "bytes", "seconds")  # values of --columns
METRIC, PUBLISHED, BYTES, SECONDS = KINDS
TARGET, TEST, RANK = "target", "test", "rank"  # added by other flags
PRIVACY = "privacy"  # added where a summary has an entry `privacy`


class Part(NamedTuple):
    """A number as it is printed, or a word."""

    text: str
    std: str = ""  # over seeds
    source: str = ""  # paper and table

    def __str__(self):
        """Returns a text such as `86.02 ± 0.38 (TinyProto, Table 1)`."""
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
    """The runs and the options of a table."""

    groups: Sequence[SeedGroup]  # with a finished run and labels, local first
    rules: Sequence[str]
    statistics: Sequence[str]
    measures: Sequence[Measure]  # one per average
    kinds: Sequence[str] = KINDS  # of columns
    target: float | None = None  # in the unit of the measures

    @property
    def names(self) -> list[str]:
        """The labels of the rows; a row has a group per block."""
        return list(dict.fromkeys(g.label for g in self.groups))


Fill = Callable[[SeedGroup], CellValue]
Titled = dict[str, tuple[int, Fill]]  # title -> `Column.better`, entry of a row


def columns_of_blocks(request: TableRequest) -> list[Column]:
    """Returns the columns of each data set, or of runs of one length on it."""
    makers: dict[str, Callable[[Sequence[SeedGroup], TableRequest], Titled]] = {
        METRIC: _metric,
        TARGET: _target,
        PRIVACY: _privacy,
        PUBLISHED: _published,
        BYTES: _bytes,
        SECONDS: _seconds,
    }
    blocks: dict[str, dict[str, SeedGroup]] = {}
    for g in request.groups:
        blocks.setdefault(g.block, {})[g.label] = g
    columns = []
    for block, by_label in blocks.items():
        shown = block if len(blocks) > 1 else ""
        rows, groups = [by_label.get(n) for n in request.names], [*by_label.values()]
        for kind in (k for k in makers if k in (*request.kinds, TARGET, PRIVACY)):
            for title, (sign, fill) in makers[kind](groups, request).items():
                cells = tuple(fill(g) if g else CellValue() for g in rows)
                columns.append(Column(title, shown, kind, cells, sign))
    return columns


def _metric(groups: Sequence[SeedGroup], request: TableRequest) -> Titled:
    """Returns a column per rule, statistic and average; titles name what differs."""
    several = len(request.statistics) > 1
    return {
        f"{rule}{measure.name}{f' {name}' * several}{measure.word}{measure.unit}": (
            measure.better,
            partial(measured, rule=rule, statistic=name, measure=measure),
        )
        for rule in _rules(groups, request)
        for name in request.statistics
        for measure in request.measures
    }


def _rules(groups: Sequence[SeedGroup], request: TableRequest) -> list[str]:
    """Returns the rules of the table that a run of these groups has."""
    metric = request.measures[0].metric
    known = {k for g in groups for r in g.finished for k in measures.rules(r, metric)}
    return [rule for rule in request.rules if rule in known]


def measured(
    group: SeedGroup, rule: str, statistic: str, measure: Measure
) -> CellValue:
    """Returns mean and standard deviation over seeds."""
    return _over_seeds(
        measures.values(group, rule, statistic, measure), measure.form, measure.ddof
    )


def _over_seeds(by_seed: Mapping[int, float], form: str, ddof: int) -> CellValue:
    if not by_seed:
        return CellValue()
    values, deviation = [*by_seed.values()], (statistics.pstdev, statistics.stdev)[ddof]
    std = format(deviation(values), form) if len(values) > 1 else ""
    return CellValue((Part(format(statistics.fmean(values), form), std),), by_seed)


def _target(groups: Sequence[SeedGroup], request: TableRequest) -> Titled:
    """Returns rounds and bytes until the target."""
    if request.target is None:
        return {}
    goal = f"{request.target:g}"
    return {
        f"{rule}{measure.name} {name} to {goal}{measure.unit}{measure.word}": (
            -1,
            partial(
                _cost_to_target,
                reach=(rule, measure, request.target),
                count=count,
                form=form,
            ),
        )
        for rule in _rules(groups, request)
        for measure in request.measures
        for name, form, count in targets.COUNTS
    }


def _cost_to_target(
    group: SeedGroup, reach: tuple[str, Measure, float], count: Callable, form: str
) -> CellValue:
    """Returns rounds or bytes until the target; empty unless every seed reached it.

    Args:
      group: runs of a row.
      reach: rule, measure and target.
      count: record -> rounds or bytes.
      form: format of the number.
    """
    values = {}
    for run in group.finished:
        record = targets.first_reaching(run, *reach)
        number = None if record is None else count(record)
        if number is None:
            return CellValue()
        values[run.config["seed"]] = number
    return _over_seeds(values, form, reach[1].ddof)


PRIVACY_COLUMNS: dict[str, tuple[str, Callable]] = {  # title -> entry, its format
    "privacy of a": ("unit", str),
    "epsilon": ("epsilon", "{:.2f}".format),
    "delta": ("delta", "{:g}".format),
    "rehearsed": ("rehearsed", {False: "no", True: "yes"}.__getitem__),
}


def _privacy(groups: Sequence[SeedGroup], request: TableRequest) -> Titled:
    """Returns the entries of `privacy` in summaries; the largest over seeds.

    The noise of a rehearsed run follows from its configuration. Older runs lack the
    entry `rehearsed`; all of them were rehearsed.
    """

    def largest(group: SeedGroup, key: str, form: Callable) -> CellValue:
        entries = (r.results.get("privacy") for r in group.finished)
        values = [({"rehearsed": True} | spent)[key] for spent in entries if spent]
        return entry(form(max(values))) if values else CellValue()

    private = any("privacy" in r.results for g in groups for r in g.finished)
    return {
        title: (0, partial(largest, key=key, form=form))
        for title, (key, form) in PRIVACY_COLUMNS.items()
        if private
    }


def _published(groups: Sequence[SeedGroup], request: TableRequest) -> Titled:
    """Returns the papers' accuracies, their rules, and our best ones by these rules."""
    if not any(_printed(g).parts for g in groups):
        return {}
    return {
        "published by": (
            0,
            lambda g: CellValue(tuple(Part(str(r)) for r in _published_rules(g))),
        ),
        "best by it %": (0, partial(_best, ddof=request.measures[0].ddof)),
        "published %": (0, _printed),
    }


def _bytes(groups: Sequence[SeedGroup], request: TableRequest) -> Titled:
    """Returns bytes of a round, and its scalars where a paper prints them."""
    scalars: Titled = {}
    if any(_printed(g, COST).parts for g in groups):
        scalars = {
            "M/round": _mean(".3f", lambda s: s["scalars_per_round"]["nominal"], 1e6),
            "published M/round": (0, partial(_printed, metrics=COST)),
        }
    sent = _mean(",.1f", lambda summary: sum(summary["bytes_per_round"].values()), 1e3)
    return scalars | {"kB/round": sent}


def _seconds(groups: Sequence[SeedGroup], request: TableRequest) -> Titled:
    return {"s/round": _mean(".2f", lambda summary: summary["seconds_per_round"])}


def _mean(
    form: str, read: Callable[[Mapping], float | None], unit: float = 1
) -> tuple[int, Fill]:
    """Returns a column of means over seeds of a number of summaries, over `unit`."""

    def fill(group: SeedGroup) -> CellValue:
        values = [_number(run, read) for run in group.finished]
        known = [value / unit for value in values if value is not None]
        return entry(format(statistics.fmean(known), form)) if known else CellValue()

    return 0, fill


def _number(run: RunFolder, read: Callable[[Mapping], float | None]) -> float | None:
    try:
        return read(run.results)
    except (KeyError, TypeError, AttributeError) as e:
        raise UserError(
            f"{run.path / SUMMARY} lacks a number of the table ({e}). Leave "
            "this run out."
        ) from e


def _published_rules(group: SeedGroup) -> list[PublishedRule]:
    """Returns the rules of the papers' accuracies of a cell."""
    rows = paper_cells.published_for(group.config, group.dataset)
    return list(dict.fromkeys(map(published_rule, rows)))


def _best(group: SeedGroup, ddof: int) -> CellValue:
    """Returns the best accuracy of a cell by the rule of each published one."""
    options = {key: option for option, key in AVERAGES.items()}
    by_rule = [
        measured(group, rule, "best", Measure(average=options[average], ddof=ddof))
        for rule, average in _published_rules(group)
    ]
    return CellValue(tuple(part for best in by_rule for part in best.parts))


def _printed(group: SeedGroup, metrics: Sequence[str] = ACCURACY) -> CellValue:
    """Returns the papers' numbers of the same cell."""
    rows = paper_cells.published_for(group.config, group.dataset, metrics)
    parts = dict.fromkeys(Part(row.mean, row.std, row.place) for row in rows)
    return CellValue(tuple(parts))

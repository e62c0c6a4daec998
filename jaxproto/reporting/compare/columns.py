"""The columns of a comparison that hold what was measured, or printed in papers."""

import statistics as stats
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
KINDS = ("metric", "published", "bytes", "seconds")  # that can be chosen
METRIC, PUBLISHED, BYTES, SECONDS = KINDS
TARGET, TEST, RANK = "target", "test", "rank"  # that are asked for
PRIVACY = "privacy"  # that is there where a run has it


class CellValue(NamedTuple):
    """What stands in a cell."""

    text: str = MISSING
    values: Mapping[int, float] = {}

    @property
    def mean(self) -> float | None:
        """As it is printed, so that what looks the same ranks the same."""
        if self.text == MISSING:
            return None
        return float(self.text.partition(SPREAD)[0].replace(",", ""))


class Column(NamedTuple):
    """A column, with an entry in every row."""

    title: str
    dataset: str  # "" where there is only one
    kind: str
    entries: tuple[CellValue, ...]
    better: int = 0  # 1 the more, -1 the less, 0 neither

    @property
    def name(self) -> str:
        """Title with the data set."""
        return f"{self.dataset} {self.title}" if self.dataset else self.title


class TableRequest(NamedTuple):
    """What a table is to show."""

    rules: Sequence[str]
    statistics: Sequence[str]
    measure: Measure
    kinds: Sequence[str] = KINDS
    target: float | None = None  # in the unit of the measure


def dataset_columns(
    dataset: str, rows: Sequence[SeedGroup | None], asked: TableRequest, several: bool
) -> list[Column]:
    """The columns of one data set.

    Args:
      dataset: its name.
      rows: the group of every row, None where a row has none on this data set.
      asked: what is shown.
      several: whether there are other data sets.
    """
    groups = [g for g in rows if g is not None]
    ways: dict[str, Callable] = {
        METRIC: _metric,
        TARGET: _target,
        PRIVACY: _privacy,
        PUBLISHED: _published,
        BYTES: _bytes,
        SECONDS: _seconds,
    }
    found = []
    for kind, titles in ways.items():
        if kind not in asked.kinds and kind not in (TARGET, PRIVACY):
            continue
        for title, (better, of) in titles(groups, asked).items():
            entries = tuple(CellValue() if g is None else of(g) for g in rows)
            label = dataset if several else ""
            found.append(Column(title, label, kind, entries, better))
    return found


Way = dict[
    str, tuple[int, Callable[[SeedGroup], CellValue]]
]  # title -> better, what fills it


def _metric(groups: Sequence[SeedGroup], asked: TableRequest) -> Way:
    """A column per rule and statistic, which titles name if there are several."""
    measure, many = asked.measure, len(asked.statistics) > 1
    return {
        f"{rule}{measure.name}{f' {name}' * many}{measure.unit}": (
            measure.better,
            partial(measured, rule=rule, statistic=name, measure=measure),
        )
        for rule in _shown(groups, asked)
        for name in asked.statistics
    }


def _shown(groups: Sequence[SeedGroup], asked: TableRequest) -> list[str]:
    """The rules asked for that a run on this data set has."""
    metric = asked.measure.metric
    there = {k for g in groups for r in g.finished for k in measures.rules(r, metric)}
    return [rule for rule in asked.rules if rule in there]


def measured(
    group: SeedGroup, rule: str, statistic: str, measure: Measure
) -> CellValue:
    """Mean and standard deviation over seeds."""
    found = measures.values(group, rule, statistic, measure)
    if not found:
        return CellValue()
    return CellValue(mean_and_std([*found.values()], measure.form, measure.ddof), found)


def _target(groups: Sequence[SeedGroup], asked: TableRequest) -> Way:
    """Rounds and bytes until a target; nothing of what a seed has not reached."""
    if asked.target is None:
        return {}
    ways: Way = {}
    for rule in _shown(groups, asked):
        for title, form, of in targets.COUNTS:
            name = targets.column_title(rule, title, asked.target, asked.measure)
            reach = partial(
                targets.first_reaching,
                rule=rule,
                measure=asked.measure,
                target=asked.target,
            )
            spent = partial(
                _spent, reach=reach, of=of, form=form, ddof=asked.measure.ddof
            )
            ways[name] = (-1, spent)
    return ways


def _spent(
    group: SeedGroup, reach: Callable, of: Callable, form: str, ddof: int
) -> CellValue:
    """What it took every seed, if all are there."""
    found = {}
    for run in group.finished:
        record = reach(run)
        number = None if record is None else of(record)
        if number is None:
            return CellValue()
        found[run.config["seed"]] = number
    return CellValue(mean_and_std([*found.values()], form, ddof), found)


def _privacy(groups: Sequence[SeedGroup], asked: TableRequest) -> Way:
    """Unit, epsilon and delta; of several seeds the largest epsilon."""
    if not any(_spent_of(g) for g in groups):
        return {}

    def shown(group: SeedGroup, key: str, form: str) -> CellValue:
        found = [spent[key] for spent in _spent_of(group)]
        return CellValue(format(max(found), form)) if found else CellValue()

    return {
        "privacy of a": (0, lambda g: shown(g, "unit", "s")),
        "epsilon": (0, lambda g: shown(g, "epsilon", ".2f")),
        "delta": (0, lambda g: shown(g, "delta", "g")),
    }


def _spent_of(group: SeedGroup) -> list[Mapping]:
    """What summaries say of privacy."""
    return [r.results["privacy"] for r in group.finished if "privacy" in r.results]


def _published(groups: Sequence[SeedGroup], asked: TableRequest) -> Way:
    """What papers print for the same cells, and our best as they measure."""
    ways: Way = {}
    if any(_printed(g) != MISSING for g in groups):
        best = partial(_best, ddof=asked.measure.ddof)
        ways["published by"] = (0, lambda g: CellValue(_rule(g)))
        ways["best by it %"] = (0, lambda g: CellValue(best(g)))
        ways["published %"] = (0, lambda g: CellValue(_printed(g)))
    return ways


def _bytes(groups: Sequence[SeedGroup], asked: TableRequest) -> Way:
    """Of a round; in the papers' unit too where they print it."""
    ways: Way = {}
    if any(_printed(g, COST) != MISSING for g in groups):
        ways["M/round"] = (0, lambda g: _mean(g, _millions, ".3f"))
        ways["published M/round"] = (0, lambda g: CellValue(_printed(g, COST)))
    return ways | {"kB/round": (0, lambda g: _mean(g, _kilobytes, ",.1f"))}


def _seconds(groups: Sequence[SeedGroup], asked: TableRequest) -> Way:
    return {"s/round": (0, lambda g: _mean(g, lambda s: s["seconds_per_round"], ".2f"))}


def _kilobytes(summary) -> float:
    return sum(summary["bytes_per_round"].values()) / 1e3


def _millions(summary) -> float | None:
    """Scalars by the papers' formula."""
    nominal = summary["scalars_per_round"]["nominal"]
    return nominal and nominal / 1e6


def _mean(group: SeedGroup, of, form: str) -> CellValue:
    values = [_of_run(r, of) for r in group.finished]
    values = [v for v in values if v is not None]
    return CellValue(format(stats.fmean(values), form)) if values else CellValue()


def _of_run(run: RunFolder, of):
    try:
        return of(run.results)
    except (KeyError, TypeError, AttributeError) as e:
        raise UserError(
            f"{run.path / SUMMARY} lacks a number of the table ({e}). Leave "
            "this run out."
        ) from e


def _judged(group: SeedGroup) -> list[PublishedRule]:
    """How the numbers printed for a cell were measured; one, as no papers share it."""
    return list(
        dict.fromkeys(
            map(published_rule, paper_cells.published_for(group.config, group.dataset))
        )
    )


def _rule(group: SeedGroup) -> str:
    return "; ".join(map(str, _judged(group))) or MISSING


def _best(group: SeedGroup, ddof: int) -> str:
    """Best round by the rule of the published number."""
    options = {key: option for option, key in AVERAGES.items()}
    found = [
        measured(
            group, how.rule, "best", Measure(average=options[how.average], ddof=ddof)
        )
        for how in _judged(group)
    ]
    return "; ".join(entry.text for entry in found) or MISSING


def _printed(group: SeedGroup, metrics=ACCURACY) -> str:
    """What the papers print for the same cell."""
    found = [
        f"{row.mean}{SPREAD + row.std if row.std else ''} "
        f"({PAPERS[row.source]}, Table {row.table})"
        for row in paper_cells.published_for(group.config, group.dataset, metrics)
    ]
    return "; ".join(dict.fromkeys(found)) or MISSING

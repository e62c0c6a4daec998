"""One table: rows are methods, columns are rules, bytes and seconds per data set."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxproto.config.fields import FOLLOW
from jaxproto.errors import UserError, choose_from
from jaxproto.methods import REFERENCE
from jaxproto.reporting.compare import measures, ranks, significance, targets
from jaxproto.reporting.compare import paper_tables as names
from jaxproto.reporting.compare.columns import (
    KINDS,
    METRIC,
    PUBLISHED,
    Column,
    TableRequest,
    dataset_columns,
)
from jaxproto.reporting.compare.footnotes import footnotes
from jaxproto.reporting.compare.measures import AVERAGES, STATISTICS, Measure
from jaxproto.reporting.compare.run_groups import SeedGroup, differing_fields


class Table(NamedTuple):
    """Cells as texts, and what has to be said of them."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    columns: tuple[Column, ...] = ()  # those of the head but the first
    caption: int = 1  # how many of the notes say what the numbers are


class TableRows(NamedTuple):
    """What a table is made of: groups with a finished run, and how they are called."""

    groups: tuple[SeedGroup, ...]  # local first
    labels: tuple[str, ...]  # of each group
    rules: tuple[str, ...]  # shown
    measure: Measure

    @property
    def names(self) -> list[str]:
        """Those of the rows; groups on several data sets can share one."""
        return list(dict.fromkeys(self.labels))

    @property
    def pairs(self) -> list[tuple[str, SeedGroup]]:
        """Labels with groups."""
        return [*zip(self.labels, self.groups, strict=True)]

    def of(self, dataset: str) -> list[SeedGroup | None]:
        """The group of every row on a data set."""
        mine = {n: g for n, g in self.pairs if g.dataset == dataset}
        return [mine.get(name) for name in self.names]


def rows(
    groups: Sequence[SeedGroup],
    *,
    average: str = "pooled",
    rules: Sequence[str] = (),
    metric: str = measures.ACCURACY,
    ddof: int = 0,
) -> TableRows:
    """The rows of a table; arguments as those of `table`."""
    if ddof not in (0, 1):
        raise UserError(f"ddof is {ddof}: give 0, or 1 (its divisor is n - ddof).")
    finished = (g for g in groups if g.finished)
    ready = sorted(finished, key=lambda g: g.method != REFERENCE)
    if not ready:
        raise UserError("none of these runs is finished: there is nothing to compare.")
    runs = [run for g in ready for run in g.finished]
    measures.check_metric(runs, metric)
    least = measures.is_smaller_better(runs, metric)
    measure = Measure(metric, choose_from("average", average, AVERAGES), ddof, least)
    there = sorted({rule for run in runs for rule in measures.rules(run, metric)})
    for rule in rules:
        if rule not in there:
            raise UserError(f"no run has rule {rule!r}; there are: {', '.join(there)}.")
    shown = tuple(dict.fromkeys(rules)) or tuple(there)
    return TableRows(tuple(ready), tuple(row_labels(ready)), shown, measure)


def table(
    groups: Sequence[SeedGroup],
    *,
    statistics: Sequence[str] = ("best", "final"),
    average: str = "pooled",
    rules: Sequence[str] = (),
    metric: str = measures.ACCURACY,
    ddof: int = 0,
    columns: Sequence[str] = (),
    target: float | None = None,
    against: str = "",
    test: str = "t",
    rank: str = "",
) -> Table:
    """The comparison.

    Args:
      groups: of `runs.groups`; no cell mixes two of them.
      statistics: of the rounds, each a column: best, final or last10.
      average: of the clients: pooled over test examples, or their mean.
      rules: only these; all by default.
      metric: of the records.
      ddof: of standard deviations over seeds, 0 or 1.
      columns: only these kinds of columns, of `columns.KINDS`; all by default.
      target: also the rounds and bytes until the metric is there, in %.
      against: also p of a paired test against this row, or against the best.
      test: which, of `paired.TESTS`.
      rank: also "average" ranks, or "all" ranks.

    Raises:
      UserError: an option that is none, a rule that no run has, no finished run.
    """
    for name in statistics:
        choose_from("statistic", name, STATISTICS)
    found = rows(groups, average=average, rules=rules, metric=metric, ddof=ddof)
    kinds = _kinds(columns, found.measure, bool(against or rank))
    shown = list(dict.fromkeys(statistics))
    made = _columns(
        found, TableRequest(found.rules, shown, found.measure, kinds, target)
    )
    runs = [run for g in found.groups for run in g.finished]
    more, short = [], measures.runs_without(runs, metric)
    if target is not None:
        more.append(targets.caption(target, found.measure))
        short += targets.runs_below_target(
            found.pairs, found.rules, found.measure, target
        )
    if against:
        made, note = _against(
            made, found, against, choose_from("test", test, significance.TESTS)
        )
        more.append(note)
    if rank:
        made = ranks.with_ranks(made, choose_from("ranks", rank, ranks.SHOWN))
        more.append(ranks.caption(made, found.names))
    first, *told = footnotes(
        groups, found.pairs, shown, found.measure, PUBLISHED in kinds
    )
    notes = (first, *more, *short, *told)
    return _table(found.names, made, notes, 1 + len(more))


def _table(
    labels: Sequence[str], made: Sequence[Column], notes: tuple[str, ...], caption: int
) -> Table:
    """Rows of columns."""
    texts = zip(*([e.text for e in c.entries] for c in made), strict=True)
    rows = ((n, *row) for n, row in zip(labels, texts, strict=True))
    head = ("method", *(column.name for column in made))
    return Table(head, tuple(rows), notes, tuple(made), caption)


def _columns(found: TableRows, asked: TableRequest) -> list[Column]:
    """What was measured, data set by data set."""
    if asked.target is not None:
        targets.check(asked.target, asked.measure)
    datasets = list(dict.fromkeys(g.dataset for g in found.groups))
    several = len(datasets) > 1
    made = [
        c for d in datasets for c in dataset_columns(d, found.of(d), asked, several)
    ]
    if not made:
        raise UserError(
            f"no column is left: no run has one of --columns={','.join(asked.kinds)}."
        )
    return made


def _kinds(asked: Sequence[str], measure: Measure, derived: bool) -> tuple[str, ...]:
    """The kinds of columns that are shown."""
    for kind in asked:
        choose_from("kind of columns", kind, KINDS)
    if asked and derived and METRIC not in asked:
        raise UserError(
            "--against and --ranks are about the columns of the metric: add "
            f"--columns={METRIC}."
        )
    plain = measure.metric == measures.ACCURACY
    if not plain and PUBLISHED in asked:
        raise UserError(
            f"papers print accuracies: --columns={PUBLISHED} cannot stand beside "
            f"--metric={measure.metric}. Leave one of them out."
        )
    return tuple(k for k in asked or KINDS if plain or k != PUBLISHED)


def _against(made: Sequence[Column], found: TableRows, against: str, test: str):
    """The columns with those of p, and what they are."""
    known = [
        (n, *{x for m, g in found.pairs if m == n for x in _called(g)})
        for n in found.names
    ]
    reference = significance.reference_row(against, known)
    label = against if reference is None else found.names[reference]
    tested, pairs = significance.with_p_values(made, reference, test)
    several = [g for g in found.groups if len(g.seeds) > 1]
    shared = any(g.config["data.seed"] != FOLLOW for g in several)
    return tested, significance.caption(label, test, pairs, shared)


def _called(group: SeedGroup) -> tuple[str, str]:
    return group.method, names.display_name(group.config)


def row_labels(groups: Sequence[SeedGroup]) -> list[str]:
    """A method as printed, with the fields that tell its groups on a data set apart.

    Local is named as the reference.
    """
    printed = [names.display_name(g.config) for g in groups]
    named = []
    for g, name in zip(groups, printed, strict=True):
        alike = [
            h.config
            for h, other in zip(groups, printed, strict=True)
            if (other, h.dataset) == (name, g.dataset)
        ]
        parts = ["reference"] * (g.method == REFERENCE)
        parts += [
            f"{k.removeprefix('method.')}={g.config.get(k)}"
            for k in differing_fields(alike)
        ]
        named.append(f"{name} ({', '.join(parts)})" if parts else name)
    return named

"""The table of a comparison: a row per method, columns per data set."""

from collections.abc import Sequence
from typing import NamedTuple

from jaxproto.config.fields import FOLLOW
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment.display_names import display_name
from jaxproto.methods import REFERENCE
from jaxproto.reporting.compare import measures, ranks, significance, targets
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
from jaxproto.reporting.compare.run_groups import (
    SeedGroup,
    fields_apart,
    with_details,
    with_lengths,
)


class Table(NamedTuple):
    """Cells as texts, and notes on them."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    columns: tuple[Column, ...]  # all but the first, the labels
    caption: int  # number of notes, from the first, that explain the numbers


class TableRows(NamedTuple):
    """The groups with a finished run, and what is shown of them."""

    groups: tuple[SeedGroup, ...]  # with labels, local first
    rules: tuple[str, ...]  # shown
    measures: tuple[Measure, ...]  # one per average

    @property
    def names(self) -> list[str]:
        """The labels of the rows; a row has a group per block."""
        return list(dict.fromkeys(g.label for g in self.groups))

    def of(self, block: str) -> list[SeedGroup | None]:
        """Returns the group of every row in a block, or None."""
        by_label = {g.label: g for g in self.groups if g.block == block}
        return [by_label.get(name) for name in self.names]


def rows(
    groups: Sequence[SeedGroup],
    *,
    averages: Sequence[str] = tuple(AVERAGES),
    rules: Sequence[str] = (),
    metric: str = measures.ACCURACY,
    ddof: int = 0,
) -> TableRows:
    """Returns the rows of a table; see `table` for the arguments."""
    if ddof not in (0, 1):
        raise UserError(f"ddof is {ddof}: give 0, or 1 (its divisor is n - ddof).")
    finished = with_lengths(g for g in groups if g.finished)
    finished.sort(key=lambda g: g.method != REFERENCE)
    if not finished:
        raise UserError("none of these runs is finished: there is nothing to compare.")
    runs = [run for g in finished for run in g.finished]
    measures.check_metric(runs, metric)
    least = measures.is_smaller_better(runs, metric)
    names = [choose_from("average", a, AVERAGES) for a in dict.fromkeys(averages)]
    each = [Measure(metric, a, ddof, least, several=len(names) > 1) for a in names]
    known = sorted({rule for run in runs for rule in measures.rules(run, metric)})
    for rule in rules:
        if rule not in known:
            raise UserError(f"no run has rule {rule!r}; there are: {', '.join(known)}.")
    shown = tuple(dict.fromkeys(rules)) or tuple(known)
    labels = row_labels(finished)
    labelled = (g._replace(label=k) for g, k in zip(finished, labels, strict=True))
    return TableRows(tuple(labelled), shown, tuple(each))


def table(
    groups: Sequence[SeedGroup],
    *,
    statistics: Sequence[str] = ("best", "final"),
    averages: Sequence[str] = tuple(AVERAGES),
    rules: Sequence[str] = (),
    metric: str = measures.ACCURACY,
    ddof: int = 0,
    columns: Sequence[str] = (),
    target: float | None = None,
    against: str = "",
    test: str = "t",
    rank: str = "",
) -> Table:
    """Returns the comparison.

    Runs on a data set that differ in their number of rounds have columns of their own.

    Args:
      groups: of `runs.groups`; a cell never mixes two of them.
      statistics: of the rounds, each a column: best, final, last10 or client_best.
      averages: of the clients, each a column: pooled over test examples, their mean.
      rules: only these; all by default.
      metric: of the records.
      ddof: of standard deviations over seeds, 0 or 1.
      columns: only these kinds of columns, of `columns.KINDS`; all by default.
      target: also the rounds and bytes until the metric is there, in %.
      against: also p of a paired test against this row, or against the best.
      test: which, of `paired.TESTS`.
      rank: also "average" ranks, or "all" ranks.

    Raises:
      UserError: an unknown option, a rule that no run has, or no finished run.
    """
    for name in statistics:
        choose_from("statistic", name, STATISTICS)
    methods = rows(groups, averages=averages, rules=rules, metric=metric, ddof=ddof)
    measure = methods.measures[0]
    kinds = _kinds(columns, measure, bool(against or rank))
    shown = list(dict.fromkeys(statistics))
    asked = TableRequest(methods.rules, shown, methods.measures, kinds, target)
    cols = _columns(methods, asked)
    runs = [run for g in methods.groups for run in g.finished]
    captions, lacking = [], measures.runs_without(runs, metric)
    if target is not None:
        captions.append(targets.caption(target, measure))
        lacking += targets.runs_below_target(
            methods.groups, methods.rules, methods.measures, target
        )
    if against:
        choose_from("test", test, significance.TESTS)
        cols, caption = _against(cols, methods, against, test)
        captions.append(caption)
    if rank:
        cols = ranks.with_ranks(cols, choose_from("ranks", rank, ranks.SHOWN))
        captions.append(ranks.caption(cols, methods.names))
    first, *notes = footnotes(groups, methods.groups, asked)
    head = ("method", *(column.name for column in cols))
    texts = ([entry.text for entry in column.entries] for column in cols)
    return Table(
        head,
        tuple(zip(methods.names, *texts, strict=True)),
        (first, *captions, *lacking, *notes),
        tuple(cols),
        1 + len(captions),
    )


def _columns(methods: TableRows, asked: TableRequest) -> list[Column]:
    """Returns the columns of all blocks."""
    if asked.target is not None:
        targets.check(asked.target, asked.measures[0])
    blocks = list(dict.fromkeys(g.block for g in methods.groups))
    several = len(blocks) > 1
    columns = [
        c for b in blocks for c in dataset_columns(b, methods.of(b), asked, several)
    ]
    if not columns:
        raise UserError(
            f"no column is left: no run has one of --columns={','.join(asked.kinds)}."
        )
    return columns


def _kinds(asked: Sequence[str], measure: Measure, derived: bool) -> tuple[str, ...]:
    """Returns the kinds of columns to show."""
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


def _against(
    columns: Sequence[Column], methods: TableRows, against: str, test: str
) -> tuple[list[Column], str]:
    """Returns the columns with those of p, and the note that explains p."""
    aliases: dict[str, set[str]] = {}
    for g in methods.groups:
        aliases.setdefault(g.label, set()).update((g.method, display_name(g.config)))
    reference = significance.reference_row(
        against, [(n, *other) for n, other in aliases.items()]
    )
    label = against if reference is None else methods.names[reference]
    tested, pairs = significance.with_p_values(columns, reference, test)
    several = [g for g in methods.groups if len(g.seeds) > 1]
    shared = any(g.config["data.seed"] != FOLLOW for g in several)
    return tested, significance.caption(label, test, pairs, shared)


def row_labels(groups: Sequence[SeedGroup]) -> list[str]:
    """Returns printed names with the fields in which groups of a block differ.

    Local is marked as the reference.
    """
    names = [(display_name(g.config), g.block) for g in groups]
    apart = fields_apart(names, [g.config for g in groups])
    result = []
    for g, (name, _), fields in zip(groups, names, apart, strict=True):
        details = ["reference"] * (g.method == REFERENCE)
        details += [f"{k.removeprefix('method.')}={g.config.get(k)}" for k in fields]
        result.append(with_details(name, details))
    return result

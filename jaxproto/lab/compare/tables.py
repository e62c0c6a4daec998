"""The table of a comparison: a row per method, columns per data set."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from jaxproto.config.fields import FOLLOW
from jaxproto.errors import UserError, choose_from
from jaxproto.experiment.display_names import display_name
from jaxproto.lab.compare import measures, ranks, significance, targets
from jaxproto.lab.compare.columns import (
    KINDS,
    METRIC,
    PUBLISHED,
    Column,
    TableRequest,
    columns_of_blocks,
)
from jaxproto.lab.compare.footnotes import footnotes
from jaxproto.lab.compare.measures import AVERAGES, STATISTICS, Measure
from jaxproto.lab.compare.run_groups import (
    SeedGroup,
    fields_apart,
    with_details,
    with_lengths,
)
from jaxproto.methods import REFERENCE
from jaxproto.storage.run_folder import RunFolder


class Table(NamedTuple):
    """Cells as texts, and notes on them."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]
    columns: tuple[Column, ...]  # all but the first, the labels
    caption: int  # number of first notes, which explain the numbers
    request: TableRequest


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
      groups: groups of `run_groups.group_by_seed`; a cell is of one of them.
      statistics: statistics over rounds, keys of `STATISTICS`; each has a column.
      averages: averages over clients, keys of `AVERAGES`; each has a column.
      rules: prediction rules; all by default.
      metric: metric of the records.
      ddof: 0 or 1; the divisor of standard deviations over seeds is n - ddof.
      columns: kinds of columns, of `columns.KINDS`; all by default.
      target: adds the rounds and bytes until the metric reaches this number; in % for
        metrics that are shares.
      against: adds p of a paired test against the row of this name, or against "best".
      test: the test, a key of `significance.TESTS`.
      rank: adds "average" ranks, or "all" ranks.

    Raises:
      UserError: an unknown option, a rule that no run has, or no finished run.
    """
    if ddof not in (0, 1):
        raise UserError(f"ddof is {ddof}: give 0, or 1 (its divisor is n - ddof).")
    labelled = _with_labels(groups)
    runs = [run for g in labelled for run in g.finished]
    request = TableRequest(
        labelled,
        _rules(runs, rules, metric),
        [choose_from("statistic", s, STATISTICS) for s in dict.fromkeys(statistics)],
        _measures(runs, averages, metric, ddof),
        _kinds(columns, metric, bool(against or rank)),
        target,
    )
    captions, lacking = list[str](), measures.runs_without(runs, metric)
    if target is not None:
        targets.check(target, request.measures[0])
        captions.append(targets.caption(target, request.measures[0]))
        lacking += targets.runs_below_target(
            request.groups, request.rules, request.measures, target
        )
    cols = columns_of_blocks(request)
    if not cols:
        raise UserError(
            f"no column is left: no run has one of --columns={','.join(request.kinds)}."
        )
    if against:
        choose_from("test", test, significance.TESTS)
        cols, caption = _against(cols, request, against, test)
        captions.append(caption)
    if rank:
        cols = ranks.with_ranks(cols, choose_from("ranks", rank, ranks.SHOWN))
        captions.append(ranks.caption(cols, request.names))
    first, *notes = footnotes(groups, request)
    texts = ([entry.text for entry in column.entries] for column in cols)
    return Table(
        ("method", *(column.name for column in cols)),
        tuple(zip(request.names, *texts, strict=True)),
        (first, *captions, *lacking, *notes),
        tuple(cols),
        1 + len(captions),
        request,
    )


def _with_labels(groups: Sequence[SeedGroup]) -> list[SeedGroup]:
    """Returns the groups with a finished run, labelled, local training first."""
    finished = with_lengths(g for g in groups if g.finished)
    finished.sort(key=lambda g: g.method != REFERENCE)
    if not finished:
        raise UserError("none of these runs is finished: there is nothing to compare.")
    rows = zip(finished, row_labels(finished), _label_fields(finished), strict=True)
    return [
        g._replace(label=label, label_fields=tuple(fields)) for g, label, fields in rows
    ]


def _measures(
    runs: Sequence[RunFolder], averages: Sequence[str], metric: str, ddof: int
) -> list[Measure]:
    """Returns the metric by each average over clients."""
    least = measures.is_smaller_better(runs, metric)
    names = [choose_from("average", a, AVERAGES) for a in dict.fromkeys(averages)]
    return [Measure(metric, a, ddof, least, several=len(names) > 1) for a in names]


def _rules(runs: Sequence[RunFolder], chosen: Sequence[str], metric: str) -> list[str]:
    """Returns the chosen rules without repetitions, or all rules of the runs."""
    measures.check_metric(runs, metric)
    known = sorted({rule for run in runs for rule in measures.rules(run, metric)})
    for rule in chosen:
        if rule not in known:
            raise UserError(f"no run has rule {rule!r}; there are: {', '.join(known)}.")
    return list(dict.fromkeys(chosen)) or known


def _kinds(chosen: Sequence[str], metric: str, derived: bool) -> tuple[str, ...]:
    """Returns the kinds of columns to show; all by default."""
    for kind in chosen:
        choose_from("kind of columns", kind, KINDS)
    if chosen and derived and METRIC not in chosen:
        raise UserError(
            "--against and --ranks are about the columns of the metric: add "
            f"--columns={METRIC}."
        )
    plain = metric == measures.ACCURACY
    if not plain and PUBLISHED in chosen:
        raise UserError(
            f"papers print accuracies: --columns={PUBLISHED} cannot stand beside "
            f"--metric={metric}. Leave one of them out."
        )
    return tuple(k for k in chosen or KINDS if plain or k != PUBLISHED)


def _against(
    columns: Sequence[Column], request: TableRequest, against: str, test: str
) -> tuple[list[Column], str]:
    """Returns the columns with those of p, and the note that explains p."""
    aliases: dict[str, set[str]] = {}
    for g in request.groups:
        aliases.setdefault(g.label, set()).update((g.method, display_name(g.config)))
    reference = significance.reference_row(
        against, [(label, *names) for label, names in aliases.items()]
    )
    label = against if reference is None else request.names[reference]
    tested, pairs = significance.with_p_values(columns, reference, test)
    several = [g for g in request.groups if len(g.seeds) > 1]
    shared = any(g.config["data.seed"] != FOLLOW for g in several)
    blocks, configs = zip(*((g.block, g.config) for g in request.groups), strict=True)
    fields = itertools.chain(*fields_apart(blocks, configs))
    apart = any(field.startswith("data.") for field in fields)
    return tested, significance.caption(label, test, pairs, shared=shared, apart=apart)


def row_labels(groups: Sequence[SeedGroup]) -> list[str]:
    """Returns printed names with the fields in which groups of a data set differ.

    Local training is marked as the reference; a block is of one number of rounds.
    """
    result = []
    for g, fields in zip(groups, _label_fields(groups), strict=True):
        details = ["reference"] * (g.method == REFERENCE)
        details += [f"{k.removeprefix('method.')}={g.config.get(k)}" for k in fields]
        result.append(with_details(display_name(g.config), details))
    return result


def _label_fields(groups: Sequence[SeedGroup]) -> list[list[str]]:
    """Returns for each group the fields that its label shows."""
    names = [(display_name(g.config), g.dataset) for g in groups]
    apart = fields_apart(names, [g.config for g in groups])
    return [
        [k for k in fields if k != "rounds" or not g.length]
        for g, fields in zip(groups, apart, strict=True)
    ]

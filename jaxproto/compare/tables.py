"""One table: rows are methods, columns are rules, bytes and seconds per data set."""

import statistics as stats
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from jaxproto.compare import cells
from jaxproto.compare.baselines import LOCAL
from jaxproto.compare.cells import PAPERS
from jaxproto.compare.judged import Judged, judged
from jaxproto.compare.notes import lines
from jaxproto.compare.runs import Group, Run, differing
from jaxproto.errors import UserError
from jaxproto.storage import records as metrics

STATISTICS = {  # option -> of an entry of the summary's rules
    "best": lambda digest: digest["best"],
    "final": lambda digest: digest["final"],
    "last10": lambda digest: metrics.mean_last(digest)[0],
}
AVERAGES = {"pooled": "pooled", "client": "client_mean"}
MISSING, SPREAD = "-", " ± "


class Table(NamedTuple):
    """Cells as texts, and what has to be said of them."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...]


def table(
    groups: Sequence[Group],
    *,
    statistics: Sequence[str] = ("best", "final"),
    average: str = "pooled",
    rules: Sequence[str] = (),
) -> Table:
    """The comparison.

    Args:
      groups: of `runs.groups`; no cell mixes two of them.
      statistics: of the rounds, each a column: best, final or last10.
      average: of the clients: pooled over test examples, or their mean.
      rules: only these; all by default.

    Raises:
      UserError: an option that is none, a rule that no run has, no finished run.
    """
    ready = sorted(
        (g for g in groups if g.finished), key=lambda g: g.method != LOCAL
    )  # the reference first
    if not ready:
        raise UserError("none of these runs is finished: there is nothing to compare.")
    there = sorted({rule for g in ready for rule in g.rules})
    for rule in rules:
        if rule not in there:
            raise UserError(f"no run has rule {rule!r}; there are: {', '.join(there)}.")
    shown, names = rules or there, labels(ready)
    datasets = list(dict.fromkeys(g.dataset for g in ready))
    how = statistics, AVERAGES[average]
    columns = {d: _columns(d, shown, ready, how, len(datasets) > 1) for d in datasets}
    head = ("method", *(title for d in datasets for title in columns[d]))
    rows = []
    for name in dict.fromkeys(names):
        mine = {g.dataset: g for g, n in zip(ready, names, strict=True) if n == name}
        cells_ = [
            show(mine[d]) if d in mine else MISSING
            for d in datasets
            for show in columns[d].values()
        ]
        rows.append((name, *cells_))
    said = lines(groups, [*zip(names, ready, strict=True)], statistics, average)
    return Table(head, tuple(rows), tuple(said))


def labels(groups: Sequence[Group]) -> list[str]:
    """A method's name, with the fields that tell its groups on a data set apart.

    Local is named as the reference.
    """
    named = []
    for g in groups:
        alike = [h.config for h in groups if (h.method, h.dataset) == _where(g)]
        told = [k for k in differing(alike) if k != "method.base"]
        parts = ["reference"] * (g.method == LOCAL)
        parts += [f"{k.removeprefix('method.')}={g.config.get(k)}" for k in told]
        base = g.config.get("method.base")
        name = f"{g.method} on {base}" if base else g.method
        named.append(f"{name} ({', '.join(parts)})" if parts else name)
    return named


def _where(group: Group):
    return group.method, group.dataset


def _columns(dataset, rules, groups, how, several: bool) -> dict:
    """Title -> function of a group that fills the cell."""
    here = [g for g in groups if g.dataset == dataset]
    before = f"{dataset} " if several else ""
    columns = {
        f"{before}{title}": of
        for rule in rules
        if any(rule in g.rules for g in here)
        for title, of in _of_rule(rule, *how).items()
    }
    if any(_published(g) != MISSING for g in here):
        columns[f"{before}published by"] = _rule
        columns[f"{before}best by it %"] = _best
        columns[f"{before}published %"] = _published
    if any(_published(g, cells.COST) != MISSING for g in here):
        columns[f"{before}M/round"] = lambda g: _mean(g, _millions, ".3f")
        columns[f"{before}published M/round"] = lambda g: _published(g, cells.COST)
    columns[f"{before}kB/round"] = lambda g: _mean(g, _kilobytes, ",.1f")
    columns[f"{before}s/round"] = lambda g: _mean(g, _seconds, ".2f")
    return columns


def _of_rule(rule: str, statistics: Sequence[str], average: str) -> dict:
    """A column per statistic, which its title names if there are several."""
    return {
        f"{rule} {name} %" if len(statistics) > 1 else f"{rule} %": partial(
            accuracy, rule=rule, average=average, statistic=name
        )
        for name in statistics
    }


def accuracy(group: Group, rule: str, average: str, statistic: str) -> str:
    """Mean and standard deviation (ddof 0) over seeds."""
    digests = [r.results["rules"].get(rule, {}).get(average) for r in group.finished]
    found = [STATISTICS[statistic](digest) for digest in digests if digest]
    values = [100 * value for value in found if value is not None]
    if not values:
        return MISSING
    text = f"{stats.fmean(values):.2f}"
    many = len(values) > 1
    return f"{text}{SPREAD}{stats.pstdev(values):.2f}" if many else text


def _kilobytes(summary) -> float:
    return sum(summary["bytes_per_round"].values()) / 1e3


def _millions(summary) -> float | None:
    """Scalars by the papers' formula."""
    nominal = summary["scalars_per_round"]["nominal"]
    return nominal and nominal / 1e6


def _seconds(summary) -> float:
    return summary["seconds_per_round"]


def _mean(group: Group, of, form: str) -> str:
    values = [_of_run(r, of) for r in group.finished]
    values = [v for v in values if v is not None]
    return format(stats.fmean(values), form) if values else MISSING


def _of_run(run: Run, of):
    try:
        return of(run.results)
    except (KeyError, TypeError, AttributeError) as e:
        raise UserError(
            f"{run.path / 'summary.json'} lacks a number of the table ({e}). Leave "
            "this run out."
        ) from e


def _judged(group: Group) -> list[Judged]:
    """How the numbers printed for a cell were measured; one, as no papers share it."""
    return list(dict.fromkeys(map(judged, cells.beside(group.config, group.dataset))))


def _rule(group: Group) -> str:
    return "; ".join(map(str, _judged(group))) or MISSING


def _best(group: Group) -> str:
    """Best round by the rule of the published number."""
    found = [accuracy(group, *how, "best") for how in _judged(group)]
    return "; ".join(found) or MISSING


def _published(group: Group, metrics=cells.ACCURACY) -> str:
    """What the papers print for the same cell."""
    found = [
        f"{row.mean}{SPREAD + row.std if row.std else ''} "
        f"({PAPERS[row.source]}, Table {row.table})"
        for row in cells.beside(group.config, group.dataset, metrics)
    ]
    return "; ".join(dict.fromkeys(found)) or MISSING

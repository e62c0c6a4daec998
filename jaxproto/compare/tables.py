"""One table: rows are methods, columns are rules, bytes and seconds per data set."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from jaxproto.compare import cells
from jaxproto.compare.notes import PAPERS, lines
from jaxproto.compare.runs import Group, differing
from jaxproto.errors import UserError

STATISTICS = {  # option -> key in the summary's rules
    "final": "final",
    "best": "best",
    "last10": "mean_last_10",
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
    statistic: str = "final",
    average: str = "pooled",
    rules: Sequence[str] = (),
) -> Table:
    """The comparison.

    Args:
      groups: of `runs.groups`; no cell mixes two of them.
      statistic: of the rounds: final, best or last10.
      average: of the clients: pooled over test examples, or their mean.
      rules: only these; all by default.

    Raises:
      UserError: an option that is none, a rule that no run has, no finished run.
    """
    how = STATISTICS[statistic], AVERAGES[average]
    ready = [g for g in groups if g.finished]
    if not ready:
        raise UserError("none of these runs is finished: there is nothing to compare.")
    there = sorted({rule for g in ready for rule in _rules(g)})
    for rule in rules:
        if rule not in there:
            raise UserError(f"no run has rule {rule!r}; there are: {', '.join(there)}.")
    shown, names = rules or there, labels(ready)
    datasets = list(dict.fromkeys(g.dataset for g in ready))
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
    said = lines(groups, [*zip(names, ready, strict=True)], statistic, average)
    return Table(head, tuple(rows), tuple(said))


def labels(groups: Sequence[Group]) -> list[str]:
    """A method's name, with the fields that tell its groups on a data set apart."""
    named = []
    for g in groups:
        alike = [h.config for h in groups if (h.method, h.dataset) == _where(g)]
        told = [k for k in differing(alike) if k != "method.base"]
        parts = [f"{k.removeprefix('method.')}={g.config.get(k)}" for k in told]
        base = g.config.get("method.base")
        name = f"{g.method} on {base}" if base else g.method
        named.append(f"{name} ({', '.join(parts)})" if parts else name)
    return named


def _where(group: Group):
    return group.method, group.dataset


def _rules(group: Group) -> set[str]:
    return {k for r in group.finished for k in r.summary["rules"]}


def _columns(dataset, rules, groups, how, several: bool) -> dict:
    """Title -> function of a group that fills the cell."""
    here = [g for g in groups if g.dataset == dataset]
    before = f"{dataset} " if several else ""

    def by_rule(rule):
        return lambda g: accuracy(g, rule, how)

    columns = {
        f"{before}{rule} %": by_rule(rule)
        for rule in rules
        if any(rule in _rules(g) for g in here)
    }
    if any(_published(g) != MISSING for g in here):
        columns[f"{before}published %"] = _published
    if any(_published(g, cells.COST) != MISSING for g in here):
        columns[f"{before}M/round"] = lambda g: _mean(g, _millions, ".3f")
        columns[f"{before}published M/round"] = lambda g: _published(g, cells.COST)
    columns[f"{before}kB/round"] = lambda g: _mean(g, _kilobytes, ",.1f")
    columns[f"{before}s/round"] = lambda g: _mean(g, _seconds, ".2f")
    return columns


def accuracy(group: Group, rule: str, how) -> str:
    """Mean and standard deviation (ddof 0) over seeds."""
    done = [r for r in group.finished if rule in r.summary["rules"]]
    statistic, average = how
    values = [100 * r.summary["rules"][rule][average][statistic] for r in done]
    if not values:
        return MISSING
    text = f"{statistics.fmean(values):.2f}"
    many = len(values) > 1
    return f"{text}{SPREAD}{statistics.pstdev(values):.2f}" if many else text


def _kilobytes(summary) -> float:
    return sum(summary["bytes_per_round"].values()) / 1e3


def _millions(summary) -> float | None:
    """Scalars by the papers' formula."""
    nominal = summary["scalars_per_round"]["nominal"]
    return nominal and nominal / 1e6


def _seconds(summary) -> float:
    return summary["seconds_per_round"]


def _mean(group: Group, of, form: str) -> str:
    values = [of(r.summary) for r in group.finished]
    values = [v for v in values if v is not None]
    return format(statistics.fmean(values), form) if values else MISSING


def _published(group: Group, metrics=cells.ACCURACY) -> str:
    """What the papers print for the same cell."""
    found = [
        f"{row.mean}{SPREAD + row.std if row.std else ''} "
        f"({PAPERS[row.source]}, Table {row.table})"
        for row in cells.beside(group.config, group.dataset, metrics)
    ]
    return "; ".join(dict.fromkeys(found)) or MISSING

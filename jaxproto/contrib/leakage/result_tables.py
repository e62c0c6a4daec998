"""Tables of what attacks found."""

import math

import numpy as np

from jaxproto.contrib.leakage import scores
from jaxproto.summary.table_formats import TableView, Value


def pooled(keys: tuple[str, ...], found: list) -> list[dict]:
    """A row for each format, noise and key: means over clients and runs.

    Args:
      keys: columns that say what a row is of.
      found: cases, each with what an attack says of it.
    """
    groups: dict[tuple, list] = {}
    for case, one in found:
        for row in one.rows:
            key = case.form, case.noise, *(row[k] for k in keys)
            groups.setdefault(key, []).append((row, one.scores))
    rows = []
    for key, members in groups.items():
        row = dict(zip(("format", "noise", *keys), key, strict=True))
        for name in [n for n in members[0][0] if n not in row]:
            values = [r[name] for r, _ in members if r[name] is not None]
            row[name] = float(np.mean(values)) if values else None
        if members[0][1] is not None:
            sizes = [sum(len(s[i]) for _, s in members) for i in (0, 1)]
            row["low"], row["high"] = scores.auc_interval(row["AUC"], *sizes)
            row["members"], row["others"] = sizes
        rows.append(row)
    return rows


def by_epsilon(rows: list[dict]) -> list[dict]:
    """Of each method the most private rows first, those without an epsilon last."""
    methods = list(dict.fromkeys(row["method"] for row in rows))

    def place(row: dict) -> tuple[int, float]:
        epsilon = row["epsilon"]
        return methods.index(row["method"]), math.inf if epsilon is None else epsilon

    return sorted(rows, key=place)


def view(title: str, rows: list[dict], notes: list[str]) -> TableView:
    """The table, numbers with two decimals."""
    head = tuple(rows[0]) if rows else ("method",)
    cells = tuple(tuple(_cell(row[k]) for k in head) for row in rows)
    return TableView(title, head, cells, tuple(notes))


def _cell(value) -> Value:
    """Two decimals; what is no number of numbers is not there."""
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 2)
    return value

"""Tables of the results of attacks."""

import math

import numpy as np

from jaxproto.contrib.leakage import scores
from jaxproto.summary.table_formats import TableView, Value


def pooled(keys: tuple[str, ...], results: list) -> list[dict]:
    """Returns a row per format, noise level and key: means over clients and runs.

    Args:
      keys: Columns that identify a row.
      results: Pairs of a case and its `AttackResult`.
    """
    groups: dict[tuple, list] = {}
    for case, result in results:
        for row in result.rows:
            key = case.form, case.noise, *(row[k] for k in keys)
            groups.setdefault(key, []).append((row, result.scores))
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
    """Sorts the rows of each method by epsilon; rows without one come last."""
    methods = list(dict.fromkeys(row["method"] for row in rows))

    def place(row: dict) -> tuple[int, float]:
        epsilon = row["epsilon"]
        return methods.index(row["method"]), math.inf if epsilon is None else epsilon

    return sorted(rows, key=place)


def view(title: str, rows: list[dict], notes: list[str]) -> TableView:
    """Returns the table with two decimals."""
    head = tuple(rows[0]) if rows else ("method",)
    cells = tuple(tuple(_cell(row[k]) for k in head) for row in rows)
    return TableView(title, head, cells, tuple(notes))


def _cell(value) -> Value:
    """Rounds floats to two decimals; NaN becomes None."""
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 2)
    return value

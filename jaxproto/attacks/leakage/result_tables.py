"""Tables of the results of attacks."""

import math
from statistics import fmean as mean

import numpy as np

from jaxproto.attacks.leakage import dense_inversion, scores
from jaxproto.summary.table_formats import TableView, Value

RATES = 0.01, 0.001  # of false positives (Carlini et al., S&P 2022)


def pooled(keys: tuple[str, ...], results: list) -> list[dict]:
    """Returns a row per format, noise level and key, over clients and runs.

    Numbers of images are summed, other numbers averaged. True positive rates use one
    threshold for all scores. The interval of the AUC counts an example once, even if
    several runs have it.

    Args:
      results: Pairs of a case and its `AttackResult`.
    """
    groups: dict[tuple, list] = {}
    for case, result in results:
        for row in result.rows:
            key = case.form, case.noise, *(row[k] for k in keys)
            groups.setdefault(key, []).append((row, result.scores, case.known.ids))
    rows = []
    for key, entries in groups.items():
        row = dict(zip(("format", "noise", *keys), key, strict=True))
        result_rows, score_pairs, id_pairs = zip(*entries, strict=True)
        for name in [n for n in result_rows[0] if n not in row]:
            values = [r[name] for r in result_rows if r[name] is not None]
            pool = sum if name in dense_inversion.COLUMNS else mean
            row[name] = pool(values) if values else None
        if score_pairs[0] is not None:
            members, others = (
                np.concatenate(side) for side in zip(*score_pairs, strict=True)
            )
            sizes = [
                len(np.unique(np.concatenate(ids)))
                for ids in zip(*id_pairs, strict=True)
            ]
            row["low"], row["high"] = scores.auc_interval(row["AUC"], *sizes)
            for fpr in RATES:
                rate = 100 * scores.tpr(members, others, fpr)
                row[f"TPR % at FPR {100 * fpr:g}%"] = rate
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

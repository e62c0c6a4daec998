"""Paired tests of rows against one row over seeds, corrected by Holm.

A run of one method and a run of another with the same seed are a pair: they begin with
the same draws, and have the same partition unless the rows differ in fields of the
data. With n pairs the signed-rank test reaches no p below 2 / 2^n, which is 0.25 for 3
seeds and 0.0625 for 5, whatever the accuracies are; so the t-test is the default. It
assumes normal differences, which few seeds cannot show.
"""

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
import pandas as pd
from scipy import stats

from jaxproto.errors import UserError, choose_from
from jaxproto.lab.compare.columns import METRIC, TEST, CellValue, Column, entry

BEST = "best"  # value of --against: the best row of each column
FINE = 9  # decimals of a difference; further ones are errors of floating point


def t_test(difference_N: np.ndarray) -> float | None:
    """Returns two-sided p of Student's t-test; None if the differences do not vary."""
    if np.ptp(difference_N) == 0:
        return None
    return float(stats.ttest_1samp(difference_N, 0.0).pvalue)


def signed_rank(difference_N: np.ndarray) -> float:
    """Returns two-sided p of Wilcoxon's test; that of up to 13 pairs is exact."""
    return float(stats.wilcoxon(difference_N[difference_N != 0]).pvalue)


TESTS: dict[str, Callable[[np.ndarray], float | None]] = {
    "t": t_test,
    "wilcoxon": signed_rank,
}
WORDING = {"t": "paired t-test", "wilcoxon": "Wilcoxon signed-rank test"}


def holm(p: Sequence[float]) -> list[float]:
    """Returns the adjusted p of each of a family of tests (Holm's step-down)."""
    order = np.argsort(p, kind="stable")
    raised = np.asarray(p)[order] * np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(raised))
    return adjusted.tolist()


def reference_row(against: str, rows: Sequence[Sequence[str]]) -> int | None:
    """Returns the row that --against names; None for the best of each column.

    Args:
      against: "best", or a name.
      rows: names of each row, its label first.

    Raises:
      UserError: no row has the name, or several have it.
    """
    if against == BEST:
        return None
    labels = [names[0] for names in rows]
    exact = [i for i, label in enumerate(labels) if label == against]
    matching = exact or [i for i, names in enumerate(rows) if against in names]
    if not matching:
        choose_from(
            "row of --against", against, {BEST, *(n for names in rows for n in names)}
        )
    if len(matching) > 1:
        listed = ", ".join(repr(labels[i]) for i in matching)
        raise UserError(f"--against={against} names several rows: {listed}. Give one.")
    return matching[0]


def with_p_values(
    columns: Sequence[Column], reference: int | None, test: str
) -> tuple[list[Column], list[int]]:
    """Adds a column of p after each of the metric; also returns the numbers of pairs.

    Raises:
      UserError: in no column do two rows have two seeds in common.
    """
    result, pairs = [], []
    for column in columns:
        result.append(column)
        if column.kind == METRIC:
            tested, counts = _tested(column, reference, test)
            result.append(tested)
            pairs += counts
    if not pairs:
        raise UserError(
            "--against has nothing to test: no two rows have two seeds in common. Run "
            "more seeds (--config.seed=1), or leave --against out."
        )
    return result, sorted({*pairs})


def _tested(
    column: Column, reference: int | None, test: str
) -> tuple[Column, list[int]]:
    """Returns corrected p of every row against the reference, and pair counts."""
    entries = column.entries
    known = [i for i, e in enumerate(entries) if e.values]
    if reference is None and known:
        reference = max(
            known, key=lambda i: column.better * fmean(entries[i].values.values())
        )
    by_row: dict[int, float] = {}
    counts = []
    for i in known:
        if reference in known and i != reference:
            difference_N = _differences(entries[i], entries[reference])
            if len(difference_N) > 1:
                counts.append(len(difference_N))
                p = TESTS[test](difference_N) if difference_N.any() else 1.0
                by_row |= {} if p is None else {i: p}  # None: undefined
    tested = dict(zip(by_row, holm([*by_row.values()]), strict=True))
    cells = tuple(
        entry(_text(tested[i])) if i in tested else CellValue()
        for i in range(len(entries))
    )
    return Column(f"{column.title} p", column.dataset, TEST, cells), counts


def _differences(cell: CellValue, other: CellValue) -> np.ndarray:
    """Returns the differences by seed, for the seeds that both cells have."""
    difference = pd.Series(cell.values) - pd.Series(other.values)
    return difference.dropna().round(FINE).to_numpy()


def _text(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else f"{p:.1e}"


def caption(
    against: str, test: str, pairs: Sequence[int], *, shared: bool, apart: bool
) -> str:
    """Returns a note that explains p and its lower bound.

    Args:
      against: "best" or the label of the reference.
      test: key of `TESTS`.
      pairs: numbers of pairs of the tests, sorted.
      shared: whether all seeds share a partition.
      apart: whether rows differ in fields of the data.
    """
    num_pairs = " or ".join(map(str, pairs))
    best = "the best (chosen by these same numbers, which lowers p)"
    note = (
        f"p: two-sided {WORDING[test]} over {num_pairs} paired seeds against "
        f"{best if against == BEST else against}, Holm-corrected over the other "
        f"methods. Of {pairs[0]} seeds a signed-rank test reaches no p below "
        f"{2.0 ** (1 - pairs[0]):.2g} before correction"
    )
    note += (
        "; the t-test takes differences for normal, and says nothing where they do not "
        "vary."
        if test == "t"
        else "."
    )
    note += " The seeds share a partition: p says nothing of others." * shared
    unequal = " Rows that differ in data.* may have other partitions: their pairs share"
    return note + f"{unequal} the seed alone." * apart

"""Differences between two records of a round, and how large rounding can make them.

Both sides compute in float32, in different orders. The effect of rounding is measured:
the PyTorch side also runs in float64, and the largest difference between its two runs,
over all clients, is the `rounding` of a quantity in a round. A difference is out of
tolerance if it exceeds

    SAFETY * rounding + FLOOR * float32's epsilon * the largest value.

The second term is for quantities in which the two runs agree by chance. Batches must be
equal. Correct predictions may differ by the number of examples whose second best score
is at most twice the tolerance below the best.

Gradients jump. If rounding moves the input of a ReLU across 0, or makes another element
the largest of a pooling window, the contribution of an example to the gradient of a
unit appears or disappears. This happens to some of the million units of a round, and
moves weights by far more than rounding does. Therefore:

- Weights after a step, which both sides start from equal weights, are compared in the
  step of median difference. Few steps have a jump, but all have a wrong constant.
- The results of a whole round of local training are compared coarsely, to find mistakes
  that no single step shows. Weights may differ by DRIFT of the largest change of a
  weight, the loss by DRIFT_OF_LOSS of itself, or by DRIFT_WITH_STATISTICS with
  BatchNorm, which amplifies a jump. A jump grows over the steps: a change of PyTorch's
  weights by one unit in the last place moved some by 5% of the largest change.
  Statistics of BatchNorm may differ by DRIFT of their own size, because a variance is
  not a sum of steps but a quadratic function of the weights of a layer. A wrong rule
  for statistics shows after one step, where they depend on the forward pass only.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.parity import record
from benchmarks.parity.record import Record

SAFETY = 10.0  # maxima of some thousand errors differ by a small factor
FLOOR = 16.0
DRIFT = 0.1
DRIFT_OF_LOSS = 1e-3
DRIFT_WITH_STATISTICS = 1e-2  # of the loss, with BatchNorm
EPSILON = float(np.finfo(np.float32).eps)
RUNNING = ("running_mean", "running_var")
STATISTICS = {  # quantity -> quantity for statistics among its arrays
    record.STEP: record.STEP_STATISTICS,
    record.WEIGHTS: record.STATISTICS,
}
EXACT = (record.BATCHES,)
SCORES_OF = {
    record.CORRECT.format(rule): record.SCORES.format(rule) for rule in record.RULES
}


class Finding(NamedTuple):
    """The difference of a quantity in a round that exceeds its tolerance most."""

    round: int  # from 1
    quantity: str
    where: str  # with the index of the element
    ours: float
    theirs: float
    difference: float
    rounding: float
    tolerance: float

    @property
    def out(self) -> bool:
        """True if the difference exceeds the tolerance, as NaN on one side does."""
        return not self.difference <= self.tolerance

    def __str__(self) -> str:
        """Formats the finding as a line of text."""
        return (
            f"round {self.round}, {self.quantity}, {self.where}: jaxproto "
            f"{self.ours:.7g}, PyTorch {self.theirs:.7g}, difference "
            f"{self.difference:.2g}, tolerance {self.tolerance:.2g}"
        )


def rounds(before, ours: Iterable[Record], theirs, exact) -> Iterator[Finding]:
    """Yields the findings of all rounds, in order.

    Args:
      before: weights before the first round, as in a record.
      ours: records of jaxproto.
      theirs: records of PyTorch.
      exact: records of PyTorch in float64.
    """
    for r, records in enumerate(zip(ours, theirs, exact, strict=True), 1):
        yield from one_round(r, before, *records)
        before = records[0][record.WEIGHTS]


def one_round(r: int, before, ours: Record, theirs: Record, exact: Record):
    """Returns one finding per quantity, in the order of the record."""
    findings, tolerance = [], {}
    coarse = drifts(ours, before)
    ours, theirs, exact = map(split, (ours, theirs, exact))
    for quantity, values in theirs.items():
        rounding = largest(seen(quantity, values, exact[quantity]))
        allowed = 0.0
        if quantity not in EXACT:
            allowed = SAFETY * rounding + FLOOR * EPSILON * size(values)
            allowed += coarse.get(quantity, 0.0)
        tolerance[quantity] = dict.fromkeys(values, allowed)
        if quantity in SCORES_OF:
            scores = SCORES_OF[quantity]
            tolerance[quantity] = ties(theirs[scores], tolerance[scores])
        about = r, quantity, rounding, tolerance[quantity]
        findings.append(largest_of(*about, ours[quantity], values))
    return findings


def split(whole: Record) -> Record:
    """Splits statistics of BatchNorm from weights, as quantities of their own."""
    parts: Record = {}
    for quantity, values in whole.items():
        for where, value in values.items():
            running = quantity in STATISTICS and where.endswith(RUNNING)
            key = STATISTICS[quantity] if running else quantity
            parts.setdefault(key, {})[where] = value
    return parts


def drifts(ours: Record, before) -> dict[str, float]:
    """Returns the tolerated drift of a round of local training, by quantity."""
    weights = ours.get(record.WEIGHTS, {})
    running = {k: v for k, v in weights.items() if k.endswith(RUNNING)}
    loss_share = DRIFT_WITH_STATISTICS if running else DRIFT_OF_LOSS
    return {
        record.WEIGHTS: DRIFT * largest(gaps(weights, before if weights else {})),
        record.STATISTICS: DRIFT * size(running),
        record.LOSS: loss_share * size(ours.get(record.LOSS, {})),
    }


def seen(quantity: str, one, other) -> dict[str, np.ndarray]:
    """Returns the differences that count: of steps, those of the median step."""
    every = gaps(one, other)
    return median_step(every) if quantity == record.STEP else every


def median_step(every: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Sets differences [S, ...] to 0 except in the step of (lower) median maximum."""
    kept = {}
    for where, away in every.items():
        order = np.argsort(away.reshape(len(away), -1).max(1), kind="stable")
        middle = np.arange(len(away)) == order[(len(away) - 1) // 2]
        kept[where] = away * middle.reshape(-1, *[1] * (away.ndim - 1))
    return kept


def first(findings: Iterable[Finding]) -> Finding | None:
    """Returns the first finding out of tolerance, in the order of quantities."""
    return next((f for f in findings if f.out), None)


def largest_of(r: int, quantity: str, rounding: float, allowed, ours, theirs):
    """Returns the finding of the element that exceeds its tolerance most."""
    every = seen(quantity, ours, theirs)
    where = max(every, key=lambda k: largest({k: every[k]}) - allowed[k])
    index = np.unravel_index(np.argmax(every[where]), every[where].shape)
    ours, theirs = (float(np.asarray(side[where])[index]) for side in (ours, theirs))
    label = f"{where}{[int(i) for i in index]}" if index else where
    both = float(every[where][index]), rounding
    return Finding(r, quantity, label, ours, theirs, *both, allowed[where])


def gaps(one, other) -> dict[str, np.ndarray]:
    """Returns absolute differences, 0 if both sides are equal or missing (NaN).

    They are infinite where one side is missing, and everywhere if shapes differ.
    """
    if one.keys() != other.keys():
        raise ValueError(f"not on both sides: {sorted(one.keys() ^ other.keys())}")
    return {k: gap(np.asarray(one[k]), np.asarray(other[k])) for k in one}


def gap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Returns the absolute differences of one array."""
    if one.shape != other.shape:
        return np.full(one.shape, np.inf)
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):  # inf - inf
        away = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.nan_to_num(away, nan=np.inf))


def largest(every: dict[str, np.ndarray]) -> float:
    """Returns the largest element of all arrays, 0 without any."""
    return max((float(a.max(initial=0.0)) for a in every.values()), default=0.0)


def size(values: dict[str, np.ndarray]) -> float:
    """Returns the largest finite absolute value."""
    finite = {k: np.asarray(a, np.float64) for k, a in values.items()}
    return largest({k: np.abs(a[np.isfinite(a)]) for k, a in finite.items()})


def ties(scores: dict[str, np.ndarray], tolerance: dict[str, float]):
    """Counts examples of each client whose two best scores rounding can swap."""
    return {
        where: float(np.sum(np.sort(s, -1)[:, -2:-1] >= -2 * tolerance[where]))
        for where, s in scores.items()
    }

"""Differences between two records of a round, and how large rounding can make them.

Both sides compute in float32, in different orders. How far that alone moves a quantity
is measured: the PyTorch side runs in float64 too, and the largest difference between
its two runs, over all clients, is the quantity's `rounding` in that round. A difference
is out of tolerance beyond

    SAFETY * rounding + FLOOR * float32's epsilon * the largest value,

the second term for quantities in which the two runs happen to agree. Batches must be
equal. Correct predictions may differ by the examples whose second best score is within
twice the tolerance of the scores.

Gradients jump: where rounding moves the input of a ReLU across 0, or makes another
element the largest of a pooling window, one example's part in the gradient of a unit
appears or goes. Among the million units of a round that happens, and it moves weights
by far more than rounding does. Two things follow:

- Weights after a step, both sides having had the same before, are compared in the step
  of median difference: few steps have a jump, a wrong constant is wrong in all of them.
- What a whole round of local training makes is compared coarsely, for mistakes that no
  single step shows: weights within DRIFT of the largest change of a weight, the loss
  within DRIFT_OF_LOSS of itself (with BatchNorm, which amplifies a jump, within
  DRIFT_WITH_STATISTICS). A jump grows over the steps: moving PyTorch's own
  weights by one unit in the last place changed some by 5% of the largest change.
  Statistics of BatchNorm may differ by DRIFT of their own size: a variance is no sum
  of steps but a function of the present weights, quadratic in each layer's. A wrong
  rule for them shows after a step, where they are of the forward pass alone.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from benchmarks.parity import record
from benchmarks.parity.record import Record

SAFETY = 10.0  # the largest of some thousand errors is a few times another largest
FLOOR = 16.0
DRIFT = 0.1
DRIFT_OF_LOSS = 1e-3
DRIFT_WITH_STATISTICS = 1e-2  # of the loss, with BatchNorm
EPSILON = float(np.finfo(np.float32).eps)
RUNNING = ("running_mean", "running_var")
STATISTICS = {  # quantity -> that of the statistics among its arrays
    record.STEP: record.STEP_STATISTICS,
    record.WEIGHTS: record.STATISTICS,
}
EXACT = (record.BATCHES,)
SCORES_OF = {
    record.CORRECT.format(rule): record.SCORES.format(rule) for rule in record.RULES
}


class Finding(NamedTuple):
    """The largest difference of one quantity in one round, by its tolerance."""

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
        """Of tolerance; so is what is not a number on one side only."""
        return not self.difference <= self.tolerance

    def __str__(self) -> str:
        """In words."""
        return (
            f"round {self.round}, {self.quantity}, {self.where}: jaxproto "
            f"{self.ours:.7g}, PyTorch {self.theirs:.7g}, difference "
            f"{self.difference:.2g}, tolerance {self.tolerance:.2g}"
        )


def rounds(before, ours: Iterable[Record], theirs, exact=None) -> Iterator[Finding]:
    """The findings of all rounds, in order.

    Args:
      before: weights before the first round, as in a record.
      ours: records of jaxproto.
      theirs: records of PyTorch.
      exact: the same in float64; without them nothing is left to rounding but FLOOR.
    """
    theirs = [*theirs]
    exact = theirs if exact is None else exact
    for r, three in enumerate(zip(ours, theirs, exact, strict=True), 1):
        yield from one_round(r, before, *three)
        before = three[0][record.WEIGHTS]


def one_round(r: int, before, ours: Record, theirs: Record, exact: Record):
    """One finding per quantity, in the order of the record."""
    found, tolerance = [], {}
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
        place = r, quantity, rounding, tolerance[quantity]
        found.append(largest_of(*place, ours[quantity], values))
    return found


def split(made: Record) -> Record:
    """The record with statistics of BatchNorm as quantities of their own."""
    found: Record = {}
    for quantity, values in made.items():
        for where, value in values.items():
            running = quantity in STATISTICS and where.endswith(RUNNING)
            of = STATISTICS[quantity] if running else quantity
            found.setdefault(of, {})[where] = value
    return found


def drifts(ours: Record, before) -> dict[str, float]:
    """How far a round of local training may drift apart, by quantity."""
    weights = ours.get(record.WEIGHTS, {})
    running = {k: v for k, v in weights.items() if k.endswith(RUNNING)}
    of_loss = DRIFT_WITH_STATISTICS if running else DRIFT_OF_LOSS
    return {
        record.WEIGHTS: DRIFT * largest(gaps(weights, before if weights else {})),
        record.STATISTICS: DRIFT * size(running),
        record.LOSS: of_loss * size(ours.get(record.LOSS, {})),
    }


def seen(quantity: str, one, other) -> dict[str, np.ndarray]:
    """The differences that count."""
    every = gaps(one, other)
    return median_step(every) if quantity == record.STEP else every


def median_step(every: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Differences [S, ...] of the step whose largest is the (lower) median, else 0."""
    kept = {}
    for where, away in every.items():
        order = np.argsort(away.reshape(len(away), -1).max(1), kind="stable")
        middle = np.arange(len(away)) == order[(len(away) - 1) // 2]
        kept[where] = away * middle.reshape(-1, *[1] * (away.ndim - 1))
    return kept


def first(findings: Iterable[Finding]) -> Finding | None:
    """The first that is out of tolerance, in the order in which quantities arise."""
    return next((f for f in findings if f.out), None)


def largest_of(r: int, quantity: str, rounding: float, allowed, ours, theirs):
    """The element that is furthest beyond its tolerance."""
    every = seen(quantity, ours, theirs)
    where = max(every, key=lambda k: largest({k: every[k]}) - allowed[k])
    index = np.unravel_index(np.argmax(every[where]), every[where].shape)
    ours, theirs = (float(np.asarray(side[where])[index]) for side in (ours, theirs))
    label = f"{where}{[int(i) for i in index]}" if index else where
    both = float(every[where][index]), rounding
    return Finding(r, quantity, label, ours, theirs, *both, allowed[where])


def gaps(one, other) -> dict[str, np.ndarray]:
    """Absolute differences; 0 of what is equal or missing (NaN) on both sides.

    Infinite where it is missing on one side, and everywhere if shapes differ.
    """
    if one.keys() != other.keys():
        raise ValueError(f"not on both sides: {sorted(one.keys() ^ other.keys())}")
    return {k: gap(np.asarray(one[k]), np.asarray(other[k])) for k in one}


def gap(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Of one array."""
    if one.shape != other.shape:
        return np.full(one.shape, np.inf)
    one, other = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(invalid="ignore"):  # inf - inf
        away = np.abs(one - other)
    same = (one == other) | (np.isnan(one) & np.isnan(other))
    return np.where(same, 0.0, np.nan_to_num(away, nan=np.inf))


def largest(every: dict[str, np.ndarray]) -> float:
    """Of all elements."""
    return max((float(a.max(initial=0.0)) for a in every.values()), default=0.0)


def size(values: dict[str, np.ndarray]) -> float:
    """The largest finite absolute value."""
    finite = {k: np.asarray(a, np.float64) for k, a in values.items()}
    return largest({k: np.abs(a[np.isfinite(a)]) for k, a in finite.items()})


def ties(scores: dict[str, np.ndarray], tolerance: dict[str, float]):
    """Examples of each client whose two best scores rounding can swap."""
    return {
        where: float(np.sum(np.sort(s, -1)[:, -2:-1] >= -2 * tolerance[where]))
        for where, s in scores.items()
    }

"""What a metric is: sums over examples on the device, and their value on the host."""

import dataclasses
from collections.abc import Callable, Mapping

import jax
import numpy as np

from jaxproto.types import Tree


def mean_of_sums(sums: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Of a total and a count: the mean; nan of nothing."""
    total, count = sums
    return np.divide(total, count)


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric of a rule of prediction.

    `sums` is traced into the compiled evaluation. What it returns is added up over
    the batches of a client, and over clients for the pooled value. `value` gets the
    sums as arrays of NumPy: of one client, or of all.
    """

    sums: Callable  # scores_BC, y_B, mask_B -> tree of sums; mask 0 must not count
    value: Callable = (
        mean_of_sums  # sums -> number or [C], or {part: either}; nan is none
    )
    least: bool = False  # the smallest value is the best
    name: str = ""

    @property
    def func(self) -> Callable:
        """The function behind it, as of a `functools.partial`."""
        return self.sums


def values(metric: Metric, sums: Tree) -> dict[str, np.ndarray]:
    """What a metric says of some sums: {its name, or name_part: number or [C]}."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = metric.value(sums)
    parts = found if isinstance(found, Mapping) else {"": found}
    return {
        "_".join(filter(None, (metric.name, part))): np.asarray(value, np.float64)
        for part, value in parts.items()
    }


def by_client(metric: Metric, sums: Tree) -> dict[str, np.ndarray]:
    """The values of every client, [K] or [K, C], of sums [K, ...]."""
    clients = len(jax.tree.leaves(sums)[0])
    each = [
        values(metric, jax.tree.map(lambda a, k=k: a[k], sums)) for k in range(clients)
    ]
    return {name: np.stack([one[name] for one in each]) for name in each[0]}


def pooled(metric: Metric, sums: Tree) -> dict[str, np.ndarray]:
    """The values over the examples of all clients, of sums [K, ...]."""
    total = jax.tree.map(lambda a: np.asarray(a).sum(0, dtype=np.float64), sums)
    return values(metric, total)

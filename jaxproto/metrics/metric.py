"""Metrics: sums over examples on the device, and their value on the host."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np

from jaxproto.types import Tree


def mean_of_sums(sums: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Divides a total by a count; nan for a count of 0."""
    total, count = sums
    return np.divide(total, count)


@dataclasses.dataclass(frozen=True)
class Metric:
    """Metric of a prediction rule.

    `sums` is traced into the compiled evaluation. Its results are added up over the
    batches of a client, and over clients for the pooled value. `value` gets the sums as
    NumPy arrays: of one client, or of all.
    """

    sums: Callable  # scores_BC, y_B, mask_B -> tree of sums; mask 0 must not count
    # sums -> number or [C], or {part: number or [C]}; nan is no value
    value: Callable = mean_of_sums
    least: bool = False  # whether the smallest value is the best
    name: str = ""
    counts: bool = False  # whether each sum is from 0 to the number of examples

    @property
    def func(self) -> Callable:
        """Function of the metric, under the name it has in a `functools.partial`."""
        return self.sums


def values(metric: Metric, sums: Tree) -> dict[str, np.ndarray]:
    """Returns the values of a metric: {name, or name_part: number or [C]}."""
    return {
        "_".join(filter(None, (metric.name, part))): np.asarray(value, np.float64)
        for part, value in parts(metric, sums).items()
    }


def parts(metric: Metric, sums: Tree) -> Mapping[str, Any]:
    """Returns what `value` of a metric returns, by part; "" if it has no parts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = metric.value(sums)
    return value if isinstance(value, Mapping) else {"": value}


def is_least(name: str, metrics: Mapping[str, Metric]) -> bool | None:
    """Returns whether the smallest value of an entry of records is the best.

    Args:
      name: name of a metric, or its name and a part, as in `values`.
      metrics: metrics by name.

    Returns:
      None if `name` is of none of the metrics.
    """
    known = [key for key in metrics if name == key or name.startswith(f"{key}_")]
    return metrics[max(known, key=len)].least if known else None


def by_client(metric: Metric, sums: Tree) -> dict[str, np.ndarray]:
    """Returns the values of every client, [K] or [K, C], from sums [K, ...]."""
    num_clients = len(jax.tree.leaves(sums)[0])
    clients = [
        values(metric, jax.tree.map(lambda a, k=k: a[k], sums))
        for k in range(num_clients)
    ]
    return {name: np.stack([c[name] for c in clients]) for name in clients[0]}


def pooled(metric: Metric, sums: Tree) -> dict[str, np.ndarray]:
    """Returns the values over the examples of all clients, from sums [K, ...]."""
    total = jax.tree.map(lambda a: np.asarray(a).sum(0, dtype=np.float64), sums)
    return values(metric, total)

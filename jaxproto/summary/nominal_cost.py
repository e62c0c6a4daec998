"""Costs of a round by the formulas of the papers."""

from collections.abc import Sequence
from functools import partial

import jax
import numpy as np

from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Net
from jaxproto.experiment.build import Experiment
from jaxproto.round.evaluation import same_rows


def classes_held(exp: Experiment) -> np.ndarray:
    """Returns whether each client holds a class, in any of its splits [K, C].

    A test part that all clients share is not theirs (docs/decisions.md#official-test).
    """
    splits, rows = exp.counts.splits(), exp.partition.test
    if len(rows) > 1 and same_rows(rows):
        del splits["test"]
    return np.sum([*splits.values()], 0) > 0


def parameters(method: Method, net: Net) -> dict[str, int]:
    """Returns the number of parameters of each network of a client, by name.

    The parts of `net`, `body` and `head`, are included.
    """
    key = jax.eval_shape(make_key, 0)
    params = jax.eval_shape(partial(method.init_client, net), key)[0]
    parts = {**params, **params.get("net", {})}
    return {k: sum(a.size for a in jax.tree.leaves(v)) for k, v in parts.items()}


def nominal(method: Method, net: Net, classes_K: Sequence[int]) -> int | None:
    """Returns the scalars of a round, both ways; None for a method without a formula.

    Args:
      net: Network of any cohort.
      classes_K: Number of classes that each client holds.
    """
    if method.nominal is None:
        return None
    return method.nominal(classes_K, parameters(method, net))

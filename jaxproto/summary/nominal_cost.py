"""What a round costs by the papers' formulas: `Method.nominal` with networks counted.

    python -m jaxproto cost --config=configs/protonorm.py:digits --all

prints it beside what is measured on the messages (`cost.py`), without training.
"""

from collections.abc import Sequence
from functools import partial

import jax

from jaxproto.method import Method
from jaxproto.types import Net


def parameters(method: Method, net: Net) -> dict[str, int]:
    """How many numbers each network of a client has, by its name in the parameters.

    The parts of `net`, `body` and `head`, are there as well.
    """
    key = jax.eval_shape(jax.random.key, 0)
    params = jax.eval_shape(partial(method.init_client, net), key)[0]
    parts = {**params, **params.get("net", {})}
    return {k: sum(a.size for a in jax.tree.leaves(v)) for k, v in parts.items()}


def nominal(method: Method, net: Net, classes_K: Sequence[int]) -> int | None:
    """Scalars of a round, both directions; None for a method without a formula.

    Args:
      net: of any cohort.
      classes_K: classes in training and test data of each client.
    """
    if method.nominal is None:
        return None
    return method.nominal(classes_K, parameters(method, net))

"""Broadcast of a server that deviates from the protocol to see more of the data.

- Networks: the first layer gets random weights, and biases with which a unit is active
  on a small share of public examples. So more units change by a single example, which
  `dense_inversion.py` recovers (trap weights: Boenisch et al., EuroS&P 2023, with
  biases from public examples in place of scaled weights).
- Prototypes: every class gets the prototype of the next one. The pull contradicts the
  labels, so that networks fit single examples rather than classes.

The server sends it in one round. Clients that compare broadcasts would notice it.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto.attacks.leakage import attacker
from jaxproto.attacks.leakage.dense_inversion import FirstLayer, first_layer
from jaxproto.attacks.leakage.next_upload import NextRound
from jaxproto.core.jax_settings import make_key
from jaxproto.core.types import Array, Protos, Tree

ACTIVE = 0.5, 0.002  # shares of examples that activate a unit, in equal ratios
NOTE = "The broadcast of the attacked round is crafted by the server."


def with_crafted(next: NextRound, seed: int) -> NextRound:
    """Returns the round with crafted networks and prototypes in the broadcast."""
    exp, key = next.run.exp, make_key(seed)
    net = exp.cohorts[0].net
    params, norm, _ = exp.method.init_client(net, key)
    layer = first_layer(net, params, norm, exp.dataset.x.shape[1:])
    public = attacker.attacker_knowledge(exp, 0, seed).public[0]
    form: Any = jax.tree.structure(params)

    def is_part(node) -> bool:
        return bool(isinstance(node, Protos) or jax.tree.structure(node) == form)

    def craft(node: Tree) -> Tree:
        if isinstance(node, Protos):
            return jax.tree.map(lambda a: jnp.roll(a, 1, 0), node)
        if layer is None or not is_part(node):
            return node
        return with_trap_weights(layer, node, public, key)

    return next._replace(down=jax.tree.map(craft, next.down, is_leaf=is_part))


def with_trap_weights(
    layer: FirstLayer, params: Tree, public: np.ndarray, key: Array
) -> Tree:
    """Returns parameters with a first layer that few examples activate."""
    kernel = layer.of(params)["kernel"]
    weights = jax.random.normal(key, kernel.shape) / np.sqrt(len(kernel))
    flat = public.reshape(len(public), -1)[:, layer.order_F]
    inactive = 1 - np.geomspace(*ACTIVE, kernel.shape[1])
    sums = np.sort(flat @ np.asarray(weights), axis=0)
    bias = -sums[(inactive * len(sums)).astype(int), np.arange(kernel.shape[1])]
    return layer.replaced(params, {"kernel": weights, "bias": jnp.asarray(bias)})

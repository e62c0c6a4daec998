"""Robust aggregation as a wrapper of any method.

The server replaces the values of every upload by their centre over the clients, and
then aggregates as the method does. Every weighted mean of equal uploads is the centre,
so that the weights that clients claim have no effect. Prototypes have a centre per
class, over the clients that sent it. All other arrays together are one vector, and each
scalar has a centre of its own. Integers stay as they are. An upload with a value that
is not finite, or beyond a bound, counts as lost: differences and sums of values near
the largest float32 overflow.
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree

from jaxproto.core.hyperparameters import Real
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Array, Protos, Top, Tree
from jaxproto.errors import UserError
from jaxproto.features.robustness.centres import Centre, median
from jaxproto.prototypes import kernels
from jaxproto.round import gather
from jaxproto.round.uploads import all_finite
from jaxproto.wire import is_message_node


def robust(method: Method, centre: Centre, share: Real, bound: Real) -> Method:
    """Returns a method whose server takes a robust centre of the uploads.

    Args:
      centre: One of `CENTRES`.
      share: Share of the clients that may be hostile.
      bound: Largest absolute value of an upload that counts.
    """

    def finish(net, server, up, key):
        return method.aggregation(net, server, centred(up, centre, share, bound), key)

    def pre_aggregate(server, ups, key):
        return method.pre_aggregate(server, centred(ups, centre, share, bound), key)

    if not method.two_exchanges:
        pre_aggregate = method.pre_aggregate
    update = Aggregation(finish, bound=bound)
    return dataclasses.replace(method, update=update, pre_aggregate=pre_aggregate)


def arrived(up: Tree, bound: Real | None = None) -> Array:
    """Returns whether uploads [K, ...] arrived with values within the bound [K]."""
    usable_K = jax.vmap(lambda row: all_finite(row, bound))(up)
    return (kernels.are_present(up) > 0) & usable_K


@kernels.float32_matmuls
def centred(up: Tree, centre: Centre, share: Real, bound: Real | None = None) -> Tree:
    """Replaces the values of uploads [K, ...] by their centre; lost ones are zero.

    Raises:
      UserError: clients choose which of their values they send.
    """
    if not jax.tree.leaves(up):
        return up
    sent_K = arrived(up, bound)
    up = gather.where_rows(sent_K, up, jax.tree.map(jnp.zeros_like, up))
    nodes, structure = jax.tree.flatten(up, is_leaf=is_message_node)
    if any(isinstance(node, Top) for node in nodes):
        raise UserError(
            "robust.aggregate compares equal entries of uploads, but clients of this "
            "method choose the entries that they send; set robust.aggregate to off, or "
            "take another method.",
            advice=[{"robust.aggregate": "off"}],
        )

    def centre_of_arrays(arrays: list[Array]) -> list[Array]:
        """Returns the centre relative to the median; weights have no natural zero."""
        _, unravel = ravel_pytree([a[0] for a in arrays])
        x_KN = jax.vmap(lambda row: ravel_pytree(row)[0])(arrays)
        middle_N = median(x_KN, sent_K)
        away_KN = jnp.where(sent_K[:, None], x_KN - middle_N, 0.0)
        centres = unravel(middle_N + centre(away_KN, sent_K, share))
        return [sent_K.reshape(-1, *[1] * a.ndim) * a for a in centres]

    def centre_of_class(x_KD, present_K):
        return jnp.where(present_K[:, None], centre(x_KD, present_K, share), 0.0)

    joined = []  # positions of the arrays that are one vector
    for i, node in enumerate(nodes):
        if isinstance(node, Protos):
            mean = jax.vmap(centre_of_class, (1, 1), 1)(node.mean, node.count > 0)
            nodes[i] = node.replace(mean=mean)
        elif jnp.issubdtype(node.dtype, jnp.floating) and node.ndim == 1:
            (nodes[i],) = centre_of_arrays([node])
        elif jnp.issubdtype(node.dtype, jnp.floating):
            joined.append(i)
    values = centre_of_arrays([nodes[i] for i in joined]) if joined else []
    for i, value in zip(joined, values, strict=True):
        nodes[i] = value
    return jax.tree.unflatten(structure, nodes)

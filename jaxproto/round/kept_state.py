"""State that the clients of a cohort keep between rounds: all or none."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Array, Client, Net


class KeptState(NamedTuple):
    """Functions that drop state of clients after a round and restore its shape."""

    init: Callable  # init_client, ids [K], counts [K, C] -> kept state [K, ...]
    restore: Callable[[Method, Net, Client], Client]  # kept [R, ...] -> clients
    keep: Callable[[Client], Client]  # client after a round -> kept state


def identities(count: Array, ids: Array) -> Client:
    """Returns clients with ids [K] and class counts [K, C], without parameters."""
    return Client((), (), (), (), count, ids, jnp.zeros_like(ids))


def _zeros(method: Method, net: Net, clients: Client) -> Client:
    """Returns clients with zeros as the state that they do not keep."""
    init = partial(method.init_client, net)
    shapes = jax.eval_shape(init, jax.eval_shape(make_key, 0))
    params, norm, memory = jax.tree.map(
        lambda a: jnp.zeros(clients.id.shape + a.shape, a.dtype), shapes
    )
    return clients.replace(params=params, norm=norm, memory=memory)


STATEFUL = KeptState(
    init=lambda new, ids, count: lax.map(lambda a: new(*a), (ids, count)),
    restore=lambda method, net, clients: clients,
    keep=lambda client: client,
)
STATELESS = KeptState(  # valid if no result depends on a client's earlier state
    init=lambda new, ids, count: identities(count, ids),
    restore=_zeros,
    keep=lambda client: client.replace(params=(), norm=(), opt=(), memory=()),
)

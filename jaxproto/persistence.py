"""State that the clients of a cohort keep between rounds: all of it, or none."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.method import Method
from jaxproto.types import Array, Client, Net


class Persistence(NamedTuple):
    """Functions between what clients keep and what a round works with."""

    init: Callable  # id, count -> a new client; ids [K], counts [K, C] -> what is kept
    restore: Callable[[Method, Net, Client], Client]  # kept [R, ...] -> clients
    keep: Callable[[Client], Client]  # client after a round -> what is kept


def identities(count: Array, ids: Array) -> Client:
    """Returns clients with ids [K] and class counts [K, C], without parameters."""
    return Client((), (), (), (), count, ids, jnp.zeros_like(ids))


def _zeros(method: Method, net: Net, clients: Client) -> Client:
    """Returns clients with zeros for the state that they do not keep."""
    init = partial(method.init_client, net)
    shapes = jax.eval_shape(init, jax.eval_shape(jax.random.key, 0))
    params, norm, memory = jax.tree.map(
        lambda a: jnp.zeros(clients.id.shape + a.shape, a.dtype), shapes
    )
    return clients.replace(params=params, norm=norm, memory=memory)


STATEFUL = Persistence(
    init=lambda new, ids, count: lax.map(lambda a: new(*a), (ids, count)),
    restore=lambda method, net, clients: clients,
    keep=lambda client: client,
)
STATELESS = Persistence(  # where no result follows from what a client had before
    init=lambda new, ids, count: identities(count, ids),
    restore=_zeros,
    keep=lambda client: client.replace(params=(), norm=(), opt=(), memory=()),
)

"""Hostile clients and robust aggregation of a run, from its configuration."""

import re
from collections.abc import Callable

import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto.config.fields import resolved_data_fields
from jaxproto.errors import UserError
from jaxproto.method import Method
from jaxproto.privacy import OFF
from jaxproto.robustness import CENTRES, Attack, attacked, robust
from jaxproto.types import ArrayLike

HOSTILE = 21  # stream of the seed of the partition


def with_robustness(method: Method, run: ml_collections.ConfigDict) -> Method:
    """Returns the method of a run with its robust aggregation and its attack."""
    if run.robust.aggregate != OFF:
        method = robust(method, CENTRES[run.robust.aggregate], run.robust.share)
    if run.attack.kind != OFF:
        attack = Attack(run.attack.kind, hostile_clients(run), run.attack.strength)
        method = attacked(method, attack)
    return method


def hostile_clients(run: ml_collections.ConfigDict) -> Callable[[ArrayLike], ArrayLike]:
    """Returns the function client ids -> whether they are hostile.

    A larger share, which may be traced, has the clients of a smaller one.
    """
    num_clients, named = run.data.clients, run.attack.clients
    generator = np.random.default_rng([resolved_data_fields(run).seed, HOSTILE])
    rank_K, hostile = generator.permutation(num_clients), run.attack.share * num_clients
    if named:
        rank_K = ~np.isin(np.arange(num_clients), np.array(named.split(","), int))
        hostile = 1
    return lambda id_K: jnp.asarray(rank_K)[id_K] < jnp.round(hostile)


def check(config: ml_collections.ConfigDict):
    """Raises UserError unless `attack.clients` lists ids of clients."""
    named, last = config.attack.clients, config.data.clients - 1
    listed = re.fullmatch(r"[0-9]+(, ?[0-9]+)*", named)
    if named and not (listed and max(map(int, named.split(","))) <= last):
        raise UserError(
            f"attack.clients is {named!r}; it must be ids from 0 to {last} joined by "
            "commas, or empty: then attack.share of the clients are hostile."
        )

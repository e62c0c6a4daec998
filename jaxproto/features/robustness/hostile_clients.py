"""Hostile clients and robust aggregation of a run, from its configuration."""

import re
from collections.abc import Callable

import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto.config.fields import resolved_data_fields
from jaxproto.core.types import ArrayLike
from jaxproto.errors import UserError
from jaxproto.features.robustness.attacks import Attack, attacked
from jaxproto.features.robustness.registry import CENTRES
from jaxproto.features.robustness.robust_aggregation import robust
from jaxproto.round.federation import Parts

HOSTILE = 21  # random stream of `data.seed` that draws hostile clients


def with_robust_aggregation(parts: Parts, run: ml_collections.ConfigDict, *_) -> Parts:
    """Returns the parts of a federation with robust aggregation."""
    centre = CENTRES[run.robust.aggregate]
    method = robust(parts.method, centre, run.robust.share, run.wire.bound)
    return parts._replace(method=method)


def with_attack(parts: Parts, run: ml_collections.ConfigDict, *_) -> Parts:
    """Returns the parts of a federation with hostile clients."""
    attack = Attack(run.attack.kind, hostile_clients(run), run.attack.strength)
    return parts._replace(method=attacked(parts.method, attack))


def hostile_clients(run: ml_collections.ConfigDict) -> Callable[[ArrayLike], ArrayLike]:
    """Returns the function client ids -> whether they are hostile.

    Clients that are hostile at one share, which may be traced, are hostile at every
    larger share.
    """
    num_clients, listed = run.data.clients, run.attack.clients
    generator = np.random.default_rng([resolved_data_fields(run).seed, HOSTILE])
    rank_K = generator.permutation(num_clients)
    num_hostile = run.attack.share * num_clients
    if listed:  # rank 0 for these clients, 1 for the others
        rank_K = ~np.isin(np.arange(num_clients), np.array(listed.split(","), int))
        num_hostile = 1
    rank_K = np.append(rank_K, num_clients)  # of ids beyond: clients that join later
    return lambda id_K: jnp.asarray(rank_K)[id_K] < jnp.round(num_hostile)


def check(config: ml_collections.ConfigDict):
    """Raises UserError unless `attack.clients` lists ids of clients."""
    listed, last = config.attack.clients, config.data.clients - 1
    is_list = re.fullmatch(r"[0-9]+(, ?[0-9]+)*", listed)
    if listed and not (is_list and max(map(int, listed.split(","))) <= last):
        raise UserError(
            f"attack.clients is {listed!r}; it must be ids from 0 to {last} joined by "
            "commas, or empty: then attack.share of the clients are hostile."
        )

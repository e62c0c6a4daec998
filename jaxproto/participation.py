"""Who takes part in a round: laws `(key, num_clients) -> Turnout`.

Randomness is a function of the round's key and the client id, never of position.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.types import Array


class Turnout(NamedTuple):
    """Bools by client id. Whoever trains without reporting keeps its own progress."""

    trains: Array  # [K]
    reports: Array  # [K], a subset of `trains`


Law = Callable[[Array, int], Turnout]


def everyone() -> Law:
    """All clients in every round (the four papers)."""

    def law(key, num_clients):
        del key
        return Turnout(*[jnp.ones(num_clients, bool)] * 2)

    return law


def uniform(fraction: float) -> Law:
    """A uniformly drawn share of the clients, at least one."""

    def law(key, num_clients):
        chosen = max(1, round(fraction * num_clients))
        rank_K = jnp.argsort(jnp.argsort(jax.random.uniform(key, (num_clients,))))
        return Turnout(*[rank_K < chosen] * 2)

    return law


def with_dropouts(law: Law, share: float) -> Law:
    """Each participant's upload is lost with probability `share`, after training."""

    def lossy(key, num_clients):
        turnout = law(key, num_clients)  # the same participants as without dropouts
        draw_K = jax.random.uniform(jax.random.fold_in(key, 1), (num_clients,))
        arrives_K = draw_K >= share
        return turnout._replace(reports=turnout.reports & arrives_K)

    return lossy

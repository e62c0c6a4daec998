"""Differential privacy of a run: entries of the records, by round."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto.config import privacy
from jaxproto.experiment.build import Experiment
from jaxproto.privacy import OFF
from jaxproto.training import programs


def privacy_ledger(
    config: ml_collections.ConfigDict, exp: Experiment
) -> Callable[[int], dict[str, dict]]:
    """Returns a function from rounds done to {"privacy": entry}, or {} if it is off.

    Participation follows from the seed, so a resumed run counts its earlier rounds.
    """
    if config.privacy.unit == OFF:
        return lambda rounds: {}
    total_RK = np.cumsum(participation_matrix(config, exp), 0)
    return lambda rounds: {
        "privacy": privacy.epsilon_record(config, total_RK[rounds - 1], rounds)
    }


def participation_matrix(
    config: ml_collections.ConfigDict, exp: Experiment
) -> np.ndarray:
    """Returns which clients train in which round [R, K]."""
    clients = len(exp.partition.train)

    def one(r):
        context = programs.round_context(config.seed, r)
        key = programs.sampling_key(context)
        return exp.sampler(key, clients, r).trains

    return np.asarray(jax.jit(jax.vmap(one))(jnp.arange(config.rounds)))

"""The privacy that a run has spent, round by round."""

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
    """Rounds done -> the entry `privacy` of a record; nothing where it is off.

    Who takes part follows from the seed, so a run that goes on counts what was before.
    """
    if config.privacy.unit == OFF:
        return lambda rounds: {}
    taken_RK = np.cumsum(participation_matrix(config, exp), 0)
    return lambda rounds: {
        "privacy": privacy.epsilon_record(config, taken_RK[rounds - 1], rounds)
    }


def participation_matrix(
    config: ml_collections.ConfigDict, exp: Experiment
) -> np.ndarray:
    """Which clients train in which round [R, K]."""
    clients = len(exp.partition.train)

    def one(r):
        context = programs.round_context(config.seed, r)
        key = programs.sampling_key(context)
        return exp.sampler(key, clients, r).trains

    return np.asarray(jax.jit(jax.vmap(one))(jnp.arange(config.rounds)))

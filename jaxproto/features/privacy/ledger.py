"""Differential privacy of a run: entries of the records, by round."""

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto.experiment.build import Experiment
from jaxproto.features.privacy import guarantee
from jaxproto.training import programs
from jaxproto.wrappers.privacy import OFF


def privacy_ledger(
    config: ml_collections.ConfigDict,
    exp: Experiment,
    context: programs.RoundContexts | None = None,
) -> Callable[[int], dict[str, dict]]:
    """Returns the function from rounds done to {"privacy": entry}; {} without privacy.

    Participation follows from the keys of rounds, so a resumed run counts its earlier
    rounds. An entry is rehearsed if noise and sampling follow from the seed.

    Args:
      context: Returns number and secret key of a round; None derives the key from the
        seed.
    """
    if config.privacy.unit == OFF:
        return lambda rounds: {}
    total_RK = np.cumsum(participation_matrix(config, exp, context), 0)
    rehearsed = {"rehearsed": context is None or not config.privacy.secret}

    def entry(rounds: int) -> dict[str, dict]:
        spent = guarantee.epsilon_record(config, total_RK[rounds - 1], rounds)
        return {"privacy": spent | rehearsed}

    return entry


def participation_matrix(
    config: ml_collections.ConfigDict,
    exp: Experiment,
    context: programs.RoundContexts | None = None,
) -> np.ndarray:
    """Returns which clients train in which round [R, K]."""
    clients = len(exp.partition.train)
    context = context or partial(programs.round_context, config.seed)

    def one(r):
        key = programs.sampling_key(context(r))
        return exp.sampler(key, clients, r).trains

    return np.asarray(jax.jit(jax.vmap(one))(jnp.arange(config.rounds)))

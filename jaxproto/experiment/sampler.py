"""Sampler of the participants of a round, from a configuration."""

import inspect

import jax
import jax.numpy as jnp
import ml_collections

from jaxproto.core import tracing
from jaxproto.core.hyperparameters import is_concrete
from jaxproto.core.jax_settings import make_key
from jaxproto.errors import (
    UserError,
    choose_from,
    describe_failure,
    place_of,
)
from jaxproto.origin import is_external
from jaxproto.round import participation
from jaxproto.round.participation import Participation

TRACES = 8  # of a user's sampler, as two draws of few clients may be equal


def build_sampler(config) -> participation.Sampler:
    """Builds the sampler of participants from the fields `participation`."""
    samplers = participation.SAMPLERS
    factory = samplers[choose_from("participation.law", config.law, samplers)]
    parameters = inspect.signature(factory).parameters
    changed = is_concrete(config.fraction) and config.fraction != 1
    if changed and "fraction" not in parameters:
        raise UserError(
            f"participation.fraction is {config.fraction}, but law {config.law!r} does "
            "not take a share of the clients; set participation.law to uniform.",
            advice=[{"participation.law": "uniform"}],
        )
    for name in parameters:
        choose_from(f"argument of sampler {config.law!r}", name, config)
    return factory(**{k: config[k] for k in parameters})


def check_sampler(config: ml_collections.ConfigDict):
    """Checks by shapes that a user's sampler draws two flags of each client."""
    law, clients = config.participation.law, config.data.clients
    sampler, factory = build_sampler(config.participation), participation.SAMPLERS[law]
    if not is_external(factory):
        return
    place = f"({place_of(factory)})"
    key, r = jax.eval_shape(make_key, 0), jax.ShapeDtypeStruct((), jnp.int32)
    try:
        drawn = tracing.shapes_of(
            lambda key, r: sampler(key, clients, r), key, r, times=TRACES
        )
    except Exception as e:  # a user's function may raise anything
        why = describe_failure(e)
        raise UserError(f"sampler {law!r} fails: {why} {place}.") from e
    flags = jax.ShapeDtypeStruct((clients,), bool)
    if not isinstance(drawn, Participation) or {*drawn} != {flags}:
        raise UserError(
            f"sampler {law!r} returns {tracing.describe_tree(drawn)}; it must return a "
            f"Participation of two arrays bool[{clients}], such as "
            f"participation.all_report(trains) {place}."
        )


def max_participants(config: ml_collections.ConfigDict) -> int:
    """Returns the most clients that take part in a round.

    It follows from the sampler, and from the `fraction` of a method that samples by
    itself (FAST).
    """
    sampler, clients = build_sampler(config.participation), config.data.clients
    count = participation.max_clients(sampler, clients)
    if "fraction" in config.method:
        by_method = participation.max_of_fraction(config.method.fraction)(clients)
        count = max(count, by_method)
    return count


def max_rows(config: ml_collections.ConfigDict) -> int:
    """Returns the number of participant rows in the arrays of a round.

    Shapes of compiled programs depend on it.
    """
    rows = participation.row_count(max_participants(config))
    return min(config.data.clients, rows)

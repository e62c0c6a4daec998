"""Sampler of the participants of a round, from a configuration."""

import inspect

import jax
import ml_collections

from jaxproto import participation
from jaxproto.errors import UserError, choose_from
from jaxproto.hyperparameters import is_concrete
from jaxproto.method import Method
from jaxproto.types import Net


def build_sampler(config) -> participation.Sampler:
    """Builds the sampler of participants from the fields `participation`."""
    samplers = participation.SAMPLERS
    factory = samplers[choose_from("participation.law", config.law, samplers)]
    parameters = inspect.signature(factory).parameters
    changed = is_concrete(config.fraction) and config.fraction != 1
    if changed and "fraction" not in parameters:
        raise UserError(
            f"participation.fraction is {config.fraction}, but law {config.law!r} does "
            "not take a share of the clients; set participation.law to uniform."
        )
    return factory(**{k: config[k] for k in parameters})


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


def max_rows_of(method: Method, sampler: participation.Sampler, net: Net, clients: int):
    """Returns the number of participant rows for the sampler that a method makes."""
    counts: list[int] = []

    def trace(key):
        server = method.init_server(net, key)
        adjusted = method.adjust_sampler(sampler, server)
        counts.append(participation.max_clients(adjusted, clients))

    jax.eval_shape(trace, jax.eval_shape(jax.random.key, 0))
    return min(clients, participation.row_count(counts[0]))

"""Who takes part in a round, from a configuration."""

import inspect

import jax
import ml_collections

from jaxproto import participation
from jaxproto.errors import UserError, choose_from
from jaxproto.hyperparameters import is_concrete
from jaxproto.method import Method
from jaxproto.types import Net


def build_sampler(config) -> participation.Sampler:
    """The sampler of clients, with those of its arguments that the config has."""
    there = participation.SAMPLERS
    make = there[choose_from("participation.law", config.law, there)]
    known = inspect.signature(make).parameters
    if (
        "fraction" not in known
        and is_concrete(config.fraction)
        and config.fraction != 1
    ):
        raise UserError(
            f"participation.fraction is {config.fraction}, but law {config.law!r} does "
            "not take a share of the clients; set participation.law to uniform."
        )
    return make(**{k: config[k] for k in known})


def max_rows(config: ml_collections.ConfigDict) -> int:
    """Rows that a round's arrays have for participants: a shape of its programs.

    By the sampler, and by the `fraction` of a method that draws by itself (FAST).
    """
    sampler, clients = build_sampler(config.participation), config.data.clients
    most = participation.max_clients(sampler, clients)
    if "fraction" in config.method:
        most = max(most, participation.max_of_fraction(config.method.fraction)(clients))
    return min(clients, participation.row_count(most))


def max_rows_of(method: Method, sampler: participation.Sampler, net: Net, clients: int):
    """The same by the sampler that the method makes of it, whatever its fields are."""
    found: list[int] = []

    def ask(key):
        server = method.init_server(net, key)
        adjusted = method.adjust_sampler(sampler, server)
        found.append(participation.max_clients(adjusted, clients))

    jax.eval_shape(ask, jax.eval_shape(jax.random.key, 0))
    return min(clients, participation.row_count(found[0]))

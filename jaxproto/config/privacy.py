"""Differential privacy of a run, from its configuration: what has a guarantee."""

import dataclasses
import inspect
from collections.abc import Callable

import jax
import numpy as np

from jaxproto import participation
from jaxproto.client import LocalTraining
from jaxproto.config import registries
from jaxproto.data.registry import NODES
from jaxproto.errors import UserError, choose_from
from jaxproto.methods import METHODS
from jaxproto.privacy import (
    CLIENT,
    EXAMPLE,
    OFF,
    UPDATES,
    Privacy,
    accounting,
    mechanism,
)

NEEDED = {  # field of a method -> what it must be, and why another has no guarantee
    "aggregate": ("mean_over_clients", "another discloses exact counts"),
    "scaling": ("sum", "another needs to know exactly who has a class"),
    "statistics": ("local", "others leave the client without noise"),
}
OF_EXAMPLES = {  # the same, of unit `example`
    "reg": (("mse_mean", "sq_l2_mean"), "another mixes the examples of a batch"),
    "collect": (("after_training",), "another counts an example more than once"),
}
FIXED_SIZE_LAWS = (
    "all",
    "uniform",
)  # laws with the same number of clients in every round


def private_methods() -> list[str]:
    """Those with a guarantee: their factories take `privacy`."""
    return [name for name, f in METHODS.items() if "privacy" in _arguments(f)]


def _arguments(factory):
    return inspect.signature(factory).parameters


def privacy_of(run) -> Privacy:
    """As the functions of a run take it; its floats may be traced."""
    own, clients = run.privacy, run.data.clients
    law = run.participation
    some = law.law == "uniform"
    among = (
        participation.count_of_fraction(law.fraction, clients)
        if some
        else float(clients)
    )
    return Privacy(own.unit, own.clip, own.noise, among)


def private_local_training(run, plain: LocalTraining) -> LocalTraining:
    """Local training of a run: by DP-SGD where examples are the unit."""
    if run.privacy.unit != EXAMPLE:
        return plain
    return dataclasses.replace(
        plain, gradient=mechanism.dp_sgd_gradient(privacy_of(run))
    )


def noiseless_gradient(run, plain: LocalTraining) -> Callable:
    """The gradient of local training, but for its noise."""
    if run.privacy.unit != EXAMPLE:
        return plain.gradient
    return mechanism.dp_sgd_gradient(privacy_of(run)._replace(noise=0.0))


def clients_per_round(config) -> int:
    """Clients of a round, of a law in `FIXED_SIZE_LAWS`."""
    clients, law = config.data.clients, config.participation
    some = participation.max_of_fraction(law.fraction)(clients)
    return some if law.law == "uniform" else clients


def check(config):
    """Raises UserError for what would have no guarantee."""
    unit = config.privacy.unit
    if choose_from("privacy.unit", unit, (OFF, CLIENT, EXAMPLE)) == OFF:
        return
    accounting.check_installed()
    there, name = private_methods(), config.method.name
    if name not in there:
        raise UserError(
            f"privacy.unit is {unit!r}, but what {name} sends is not clipped and noisy "
            f"as a whole, so nothing would be guaranteed; methods with a guarantee: "
            f"{', '.join(there)}. Take one of them, or set privacy.unit to off."
        )
    needed = {k: ((v,), why) for k, (v, why) in NEEDED.items()}
    bases = tuple(base for base in registries.OPTIONS["base"] if base in there)
    needed["base"] = bases, "another trains on each client's prototypes"
    needed |= OF_EXAMPLES if unit == EXAMPLE else {}
    for key, (values, why) in needed.items():
        if config.method.get(key, values[0]) not in values:
            have, want = config.method[key], " or ".join(values)
            _refuse(unit, f"method.{key}", have, want, why)
    if config.data.name == NODES:
        exact = "nodes tell their labels, and words of texts, exactly before round 1"
        _refuse(unit, "data.name", NODES, "a data set that both sides know", exact)
    if unit == CLIENT:
        _check_shares(config)


def _check_shares(config):
    """Whether the clients of a round add as much noise as is accounted for."""
    law, up = config.participation.law, config.wire.up
    if law not in FIXED_SIZE_LAWS:
        fixed = "noise comes in shares from a known number of clients"
        _refuse(CLIENT, "participation.law", law, " or ".join(FIXED_SIZE_LAWS), fixed)
    if up != "float32":
        why = "rounding after a client's share of the noise depends on its upload"
        _refuse(CLIENT, "wire.up", up, "float32", why)


def _refuse(unit, path, have, want, why):
    raise UserError(
        f"privacy.unit is {unit!r} and {path} is {have!r}; it must be {want}: {why}, "
        "so nothing would be guaranteed. Change it, or set privacy.unit to off."
    )


def check_networks(unit: str, cohorts):
    """Raises UserError for networks with BatchNorm under unit `example`."""
    if unit != EXAMPLE:
        return
    for cohort in cohorts:
        _, norm = jax.eval_shape(cohort.net.init, jax.eval_shape(jax.random.key, 0))
        if jax.tree.leaves(norm):
            raise UserError(
                f"privacy.unit is {unit!r}, but network {cohort.name!r} has BatchNorm, "
                "whose statistics mix the examples of a batch; take one without, such "
                "as model.group=mlp or cnn4, or set privacy.unit to client."
            )


def is_stateless(config) -> bool:
    """Whether clients keep nothing that a later upload depends on.

    Only then does the sampling of clients amplify: what a client keeps of earlier
    rounds says in which of them it was drawn.
    """
    return _updates(config) and config.local.optimizer_state == "restart"


def _updates(config) -> bool:
    """Whether the method releases trained networks alone, and no prototypes."""
    return UPDATES in registries.annotations(METHODS[config.method.name])["privacy"]


def epsilon_record(config, taken_K: np.ndarray, rounds: int) -> dict:
    """What a record says of the first `rounds` rounds.

    Args:
      taken_K: rounds that each client took part in.
    """
    own, most = config.privacy, int(taken_K.max(initial=0))
    amplified = (
        own.unit == CLIENT
        and config.participation.law == "uniform"
        and is_stateless(config)
    )
    if amplified:
        sampling = accounting.Sampling(config.data.clients, clients_per_round(config))
        epsilon = accounting.epsilon_subsampled(own.noise, rounds, own.delta, sampling)
    else:
        times = most * num_releases(config)
        epsilon = accounting.epsilon_composed(own.noise, times, own.delta)
    return {
        "unit": own.unit,
        "epsilon": epsilon,
        "delta": own.delta,
        "most_rounds": most,
        "amplified": amplified,
    }


def num_releases(config) -> int:
    """Gaussian mechanisms that a unit has a part in, in a round of its client."""
    if config.privacy.unit == CLIENT:
        return 1
    return config.local.epochs + (not _updates(config))  # and the prototypes

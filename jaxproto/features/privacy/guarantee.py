"""Differential privacy of a run: checks of its guarantee, mechanism and epsilon."""

import dataclasses
from collections.abc import Callable

import jax
import numpy as np

from jaxproto.config import registries
from jaxproto.config.fields import flatten
from jaxproto.core.jax_settings import make_key
from jaxproto.data.registry import NODES
from jaxproto.errors import UserError
from jaxproto.features.privacy import accounting
from jaxproto.methods import METHODS
from jaxproto.round import participation
from jaxproto.round.client import LocalTraining
from jaxproto.round.federation import Parts
from jaxproto.wrappers.privacy import (
    CLIENT,
    EXAMPLE,
    OFF,
    UPDATES,
    Privacy,
    mechanism,
)

REQUIRED = {  # field of a method -> values with a guarantee; why others have none
    "aggregate": (("mean_over_clients",), "another discloses exact counts"),
    "scaling": (("sum",), "another needs to know exactly who has a class"),
    "statistics": (("local",), "others leave the client without noise"),
}
REQUIRED_OF_EXAMPLES = {  # additional ones with unit `example`
    "reg": (("mse_mean", "sq_l2_mean"), "another mixes the examples of a batch"),
    "collect": (("after_training",), "another counts an example more than once"),
}
FIXED_SIZE_LAWS = ("all", "uniform")  # rounds have equally many participants


def private_methods() -> list[str]:
    """Returns the methods with a guarantee: their factories take `privacy`."""
    return [
        name
        for name, factory in METHODS.items()
        if "privacy" in registries.arguments(factory)
        and "privacy" not in registries.plain_arguments(factory)
    ]


def privacy_of(run) -> Privacy:
    """Returns the `Privacy` of a run; its floats may be traced."""
    privacy, law, clients = run.privacy, run.participation, run.data.clients
    count = participation.count_of_fraction
    sampled = law.law == "uniform"
    participants = count(law.fraction, clients) if sampled else float(clients)
    return Privacy(privacy.unit, privacy.clip, privacy.noise, participants)


def rehearsal(config):
    """Returns a configuration whose noise on nodes follows from the seed."""
    rehearsed = config.copy_and_resolve_references()
    rehearsed.privacy.secret = config.privacy.unit == OFF
    return rehearsed


def with_private_training(parts: Parts, run, *_) -> Parts:
    """Returns the parts of a federation; DP-SGD trains where examples are the unit."""
    if run.privacy.unit != EXAMPLE:
        return parts
    gradient = mechanism.dp_sgd_gradient(privacy_of(run))
    return parts._replace(local=dataclasses.replace(parts.local, gradient=gradient))


def noiseless_gradient(run, plain: LocalTraining) -> Callable:
    """Returns the gradient of local training without its noise."""
    if run.privacy.unit != EXAMPLE:
        return plain.gradient
    return mechanism.dp_sgd_gradient(privacy_of(run)._replace(noise=0.0))


def clients_per_round(config) -> int:
    """Returns the number of participants of a round, for a law in `FIXED_SIZE_LAWS`."""
    clients, law = config.data.clients, config.participation
    if law.law != "uniform":
        return clients
    return participation.max_of_fraction(law.fraction)(clients)


def check(config):
    """Raises UserError for a configuration without a guarantee."""
    unit = config.privacy.unit
    if unit == OFF:
        return
    accounting.check_installed()
    private, name = private_methods(), config.method.name
    if name not in private:
        raise UserError(
            f"privacy.unit is {unit!r}, but what {name} sends is not clipped and noisy "
            f"as a whole, so nothing would be guaranteed; methods with a guarantee: "
            f"{', '.join(private)}. Take one of them, or set privacy.unit to off.",
            advice=[{"privacy.unit": OFF}],
        )
    bases = tuple(base for base in registries.OPTIONS["base"] if base in private)
    required = {**REQUIRED}
    required["base"] = bases, "another trains on each client's prototypes"
    required |= REQUIRED_OF_EXAMPLES if unit == EXAMPLE else {}
    for key, (values, why) in required.items():
        if (value := config.method.get(key, values[0])) not in values:
            _refuse(unit, f"method.{key}", value, " or ".join(values), why)
    if config.data.name == NODES:
        why = "nodes send their exact labels, and words of texts, before round 1"
        _refuse(unit, "data.name", NODES, "a data set that both sides know", why)
    if unit == CLIENT:
        _check_shares(config)
    elif (dtype := config.model.compute_dtype) != "float32":
        why = "other numbers are too coarse to clip an example's gradient to its norm"
        _refuse(unit, "model.compute_dtype", dtype, "float32", why)


def _check_shares(config):
    """Raises UserError if a round may add less noise than is accounted for."""
    law, up = config.participation.law, config.wire.up
    for path in ("attack.kind", "robust.aggregate"):
        if (value := flatten(config)[path]) != OFF:
            why = "the noise is on the sum of all uploads, and each adds a share"
            _refuse(CLIENT, path, value, OFF, why)
    if law not in FIXED_SIZE_LAWS:
        why = "noise comes in shares from a known number of clients"
        _refuse(CLIENT, "participation.law", law, " or ".join(FIXED_SIZE_LAWS), why)
    if up != "float32":
        why = "rounding after a client's share of the noise depends on its upload"
        _refuse(CLIENT, "wire.up", up, "float32", why)


def _refuse(unit, path, value, required, why):
    """Raises UserError for a field whose value leaves no guarantee."""
    raise UserError(
        f"privacy.unit is {unit!r} and {path} is {value!r}; it must be {required}: "
        f"{why}, so nothing would be guaranteed. Change it, or set privacy.unit to "
        "off.",
        advice=[{"privacy.unit": OFF}],
    )


def check_data(config, dataset, cohorts):
    """Raises UserError for a private vocabulary, or BatchNorm under unit `example`."""
    if dataset.tokens and not config.data.tokens:
        why = "a vocabulary of the training texts discloses words of single texts"
        vocabulary = "a file with a public vocabulary"
        _refuse(config.privacy.unit, "data.tokens", "", vocabulary, why)
    unit = config.privacy.unit
    for cohort in cohorts if unit == EXAMPLE else ():
        _, norm = jax.eval_shape(cohort.net.init, jax.eval_shape(make_key, 0))
        if jax.tree.leaves(norm):
            raise UserError(
                f"privacy.unit is {unit!r}, but network {cohort.name!r} has BatchNorm, "
                "whose statistics mix the examples of a batch; take one without, such "
                "as model.group=mlp or cnn4, or set privacy.unit to client.",
                advice=[{"model.group": "mlp"}, {"privacy.unit": CLIENT}],
            )


def _releases_only_networks(config) -> bool:
    """Returns whether the method releases networks only, without prototypes."""
    return UPDATES in registries.annotations(METHODS[config.method.name])["privacy"]


def epsilon_record(config, taken_K: np.ndarray, rounds: int) -> dict:
    """Returns the privacy entry of a record for the first `rounds` rounds.

    With unit `client`, the adversary is another client, which knows its own share of
    the noise and the rounds in which it takes part.

    Args:
      taken_K: Number of rounds in which each client took part [K].
    """
    privacy, most_rounds = config.privacy, int(taken_K.max(initial=0))
    amplified = (  # a state from earlier rounds discloses who was drawn in them
        privacy.unit == CLIENT
        and config.participation.law == "uniform"
        and _releases_only_networks(config)
        and config.local.optimizer_state == "restart"
    )
    if amplified:
        others = max(config.data.clients - 1, 1)
        drawn = min(clients_per_round(config), others)
        epsilon = accounting.epsilon_subsampled(
            noise_multiplier(config), rounds, privacy.delta, others, drawn
        )
    else:
        epsilon = epsilon_without_sampling(config, most_rounds)
    return {
        "unit": privacy.unit,
        "epsilon": epsilon,
        "delta": privacy.delta,
        "most_rounds": most_rounds,
        "amplified": amplified,
    }


def epsilon_without_sampling(config, rounds: int) -> float:
    """Returns the exact epsilon of a unit whose client takes part in all rounds."""
    releases, noise = rounds * num_releases(config), noise_multiplier(config)
    return accounting.epsilon_composed(noise, releases, config.privacy.delta)


def noise_multiplier(config) -> float:
    """Returns the multiplier of the noise that the adversary does not know."""
    noise = config.privacy.noise
    if config.privacy.unit == CLIENT:
        return mechanism.noise_against_participants(noise, clients_per_round(config))
    return noise


def num_releases(config) -> int:
    """Returns the number of Gaussian mechanisms per round that use a unit's data."""
    if config.privacy.unit == CLIENT:
        return 1
    releases_prototypes = not _releases_only_networks(config)
    return config.local.epochs + releases_prototypes

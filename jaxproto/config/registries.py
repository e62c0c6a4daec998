"""The names by which a configuration chooses functions and values."""

import inspect
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from jaxproto import batches, client, kernels, losses, masks, transforms
from jaxproto.methods import (
    METHODS,
    cps_ppa_cpkd,
    fast,
    fedavg,
    feddistill,
    fednova,
    fedproto,
    fedtgp,
    fml,
    refprotofl,
    tinyproto,
)
from jaxproto.methods.fedproto import after_training, before_training, train_pass

OPTIONS: dict[str, dict[str, Any]] = {  # argument of a method -> name -> value
    "reg": {
        "l2_of_means": losses.l2_of_means,
        "mse_mean": losses.mse_mean,
        "sq_l2_mean": losses.sq_l2_mean,
    },
    "collect": {
        "after_training": after_training,
        "before_training": before_training,
        "train_pass": train_pass,
    },
    "aggregate": {
        "mean_over_clients": kernels.mean_over_clients,
        "mean_over_examples": kernels.mean_over_examples,
    },
    "alignment": {
        "thomson": transforms.THOMSON,
        "none": transforms.IDENTITY,
    },
    "on_server": {
        "none": transforms.IDENTITY,
        "carry_over": transforms.CARRY_OVER,
    },
    "base": {
        "fedproto": tinyproto.on_fedproto,
        "fedtgp": tinyproto.on_fedtgp,
    },
    "masks": dict(masks.MASKS),
    "scaling": {
        "sum": tinyproto.SUM,
        "mean": tinyproto.MEAN,
        "none": tinyproto.UNSCALED,
    },
    "compare": {
        "dense": tinyproto.DENSE,
        "sparse": tinyproto.SPARSE,
    },
    "distill": {
        "cpkd": cps_ppa_cpkd.cpkd,
        "none": fedproto.uniform,
    },
    "pull": {  # of RefProtoFL
        "sq_l2_mean": losses.sq_l2_mean,
        "sq_l2_sum": refprotofl.sq_l2_sum,
        "mse_mean": losses.mse_mean,
    },
    "target": {  # of distillation between two networks
        "detached": fml.detached,
        "attached": fml.attached,
    },
    "distance": {  # of FedDistill: docs/decisions.md#feddistill
        "softmax_ce": feddistill.softmax_ce,
        "mse": feddistill.mse,
        "raw_ce": feddistill.raw_ce,
    },
    "statistics": {  # of BatchNorm, in the methods that average whole networks
        "local": fedavg.own_statistics,
        "averaged": fedavg.averaged_statistics,
    },
    "pace": {  # of FAST's probability of a snapshot
        "fixed": fast.FIXED,
        "adaptive": fast.ADAPTIVE,
    },
    "anchors": {
        "external": refprotofl.EXTERNAL,
        "none": refprotofl.NONE,
    },
}
VALUES = (  # arguments whose fields are fields of a configuration
    fedproto.Pull,
    fedtgp.ServerTraining,
    tinyproto.Sparsity,
)
SHIPPED = {key: dict(values) for key, values in OPTIONS.items()}
FOLLOWED = {"server_batch": "local.batch_size"}  # argument -> whose value 0 takes
FOLLOWING = {  # argument that is 0 in a configuration -> whole configuration -> value
    key: operator.attrgetter(path) for key, path in FOLLOWED.items()
}
FROM_RUN = {  # argument of a method -> whole configuration, its fields -> value
    "rounds": lambda run, fields: run.rounds,
    "descent": lambda run, fields: fednova.descent_of(
        run.optimizer, run.local.optimizer_state, fields["mu"]
    ),
}
NETWORKS = {"aux": "cnn4_d"}  # argument that is a network -> default
ORDERS = {"shuffled": batches.shuffled, "fixed": batches.fixed}
SHORT = {"wrap": batches.wrap, "skip": batches.skip}
INITS = {"independent": client.independent, "same": client.same}
OPTIMIZER_STATES = {"restart": client.restart, "keep": client.keep}


def arguments(factory: Callable) -> dict:
    """What a factory takes, with defaults; the fields of `VALUES` one by one."""
    flat: dict[str, Any] = {}
    for key, p in inspect.signature(factory).parameters.items():
        together = isinstance(p.default, VALUES)
        flat |= p.default._asdict() if together else {key: p.default}
    return flat


def annotations(factory: Callable) -> dict[str, tuple]:
    """What `Annotated` says of each argument; the fields of `VALUES` one by one.

    A factory whose annotations cannot be resolved has none.
    """
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters
    except Exception:  # whatever a name in a text of one's own raises
        parameters = inspect.signature(factory).parameters
    flat: dict[str, tuple] = {}
    for key, p in parameters.items():
        if isinstance(p.default, VALUES):
            hints = typing.get_type_hints(type(p.default), include_extras=True)
            flat |= {name: _metadata(hint) for name, hint in hints.items()}
        else:
            flat[key] = _metadata(p.annotation)
    return flat


def _metadata(hint) -> tuple:
    """The metadata of an `Annotated`, or of those that a union is made of."""
    own = getattr(hint, "__metadata__", None)
    if own is not None:
        return own
    unions = (typing.Union, types.UnionType)
    parts = typing.get_args(hint) if typing.get_origin(hint) in unions else ()
    return tuple(found for part in parts for found in _metadata(part))


def gathered(factory: Callable, given: Mapping) -> dict:
    """Arguments of a factory of which those of `VALUES` were given by their fields."""
    made = dict(given)
    for key, p in inspect.signature(factory).parameters.items():
        if isinstance(p.default, VALUES):
            own = {k: made.pop(k) for k in p.default._fields if k in made}
            made[key] = made.get(key, p.default)._replace(**own)
    return made


def default_name(key: str, value) -> str:
    """The name of the value that an argument has by default."""
    return next(name for name, there in OPTIONS[key].items() if there is value)


def options_changed() -> bool:
    """Whether an option has a value that did not come with the package."""
    return OPTIONS != SHIPPED


def needs_rounds(config) -> bool:
    """Whether a round depends on the number of rounds: a run cannot be made longer."""
    asked = inspect.signature(METHODS[config.method.name]).parameters
    return "rounds" in asked or config.optimizer.schedule == "cosine"

"""The names by which a configuration chooses functions and values."""

import inspect
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
    fml,
    refprotofl,
    tinyproto,
)
from jaxproto.methods.fedproto import after_training, before_training, train_pass
from jaxproto.types import Spec

OPTIONS: dict[str, dict[str, Any]] = {  # argument of a method -> name -> spec -> value
    "reg": {
        "l2_of_means": lambda spec: losses.l2_of_means,
        "mse_mean": lambda spec: losses.mse_mean,
        "sq_l2_mean": lambda spec: losses.sq_l2_mean,
    },
    "collect": {
        "after_training": lambda spec: after_training,
        "before_training": lambda spec: before_training,
        "train_pass": lambda spec: train_pass,
    },
    "aggregate": {
        "mean_over_clients": lambda spec: kernels.mean_over_clients,
        "mean_over_examples": lambda spec: kernels.mean_over_examples,
    },
    "alignment": {
        "thomson": lambda spec: transforms.THOMSON,
        "none": lambda spec: transforms.IDENTITY,
    },
    "on_server": {
        "none": lambda spec: transforms.IDENTITY,
        "carry_over": lambda spec: transforms.carry_over(*spec),
    },
    "base": {
        "fedproto": lambda spec: tinyproto.on_fedproto,
        "fedtgp": lambda spec: tinyproto.on_fedtgp,
    },
    "masks": {name: lambda spec, m=m: m for name, m in masks.MASKS.items()},
    "scaling": {
        "sum": lambda spec: tinyproto.SUM,
        "mean": lambda spec: tinyproto.MEAN,
        "none": lambda spec: tinyproto.UNSCALED,
    },
    "compare": {
        "dense": lambda spec: tinyproto.DENSE,
        "sparse": lambda spec: tinyproto.SPARSE,
    },
    "distill": {
        "cpkd": lambda spec: cps_ppa_cpkd.cpkd,
        "none": lambda spec: fedproto.uniform,
    },
    "pull": {  # of RefProtoFL
        "sq_l2_mean": lambda spec: losses.sq_l2_mean,
        "sq_l2_sum": lambda spec: refprotofl.sq_l2_sum,
        "mse_mean": lambda spec: losses.mse_mean,
    },
    "target": {  # of distillation between two networks
        "detached": lambda spec: fml.detached,
        "attached": lambda spec: fml.attached,
    },
    "distance": {  # of FedDistill: docs/decisions.md#feddistill
        "softmax_ce": lambda spec: feddistill.softmax_ce,
        "mse": lambda spec: feddistill.mse,
        "raw_ce": lambda spec: feddistill.raw_ce,
    },
    "statistics": {  # of BatchNorm, in the methods that average whole networks
        "local": lambda spec: fedavg.own_statistics,
        "averaged": lambda spec: fedavg.averaged_statistics,
    },
    "pace": {  # of FAST's probability of a snapshot
        "fixed": lambda spec: fast.FIXED,
        "adaptive": lambda spec: fast.ADAPTIVE,
    },
    "anchors": {
        "external": lambda spec: refprotofl.EXTERNAL,
        "none": lambda spec: refprotofl.NONE,
    },
}
FOLLOWING = {  # argument that is 0 in a configuration -> whole configuration -> value
    "server_batch": lambda run: run.local.batch_size,  # the clients'
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


def default_name(key: str, value) -> str:
    """The name of the value that an argument has by default."""
    anything = Spec(1, 1)
    return next(n for n, make in OPTIONS[key].items() if make(anything) is value)


def needs_rounds(config) -> bool:
    """Whether a round depends on the number of rounds: a run cannot be made longer."""
    asked = inspect.signature(METHODS[config.method.name]).parameters
    return "rounds" in asked or config.optimizer.schedule == "cosine"

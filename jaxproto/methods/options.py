"""Values of the arguments of methods, by their names in configurations."""

from collections.abc import MutableMapping
from typing import Any

from jaxproto.core.hyperparameters import is_zero
from jaxproto.core.registry import Registry
from jaxproto.methods import (
    cps_ppa_cpkd,
    fast,
    fedavg,
    feddistill,
    fedl2g,
    fednova,
    fedproto,
    fedtgp,
    fml,
    protonorm,
    refprotofl,
    tinyproto,
)
from jaxproto.prototypes import kernels, losses, masks, transforms

_BUILTIN: dict[str, dict[str, Any]] = {
    "reg": {
        "l2_of_means": losses.l2_of_means,
        "mse_mean": losses.mse_mean,
        "sq_l2_mean": losses.sq_l2_mean,
    },
    "collect": {
        "after_training": fedproto.after_training,
        "before_training": fedproto.before_training,
        "train_pass": fedproto.train_pass,
    },
    "aggregate": {
        "mean_over_clients": kernels.mean_over_clients,
        "mean_over_examples": kernels.mean_over_examples,
        "as_printed": kernels.mean_as_printed,
    },
    "alignment": {"thomson": transforms.THOMSON, "none": transforms.IDENTITY},
    "on_server": {"none": transforms.IDENTITY, "carry_over": transforms.CARRY_OVER},
    "initial": {  # global prototypes of ProtoNorm's first round
        "none": protonorm.no_initial_prototypes,
        "random": protonorm.random_unit,
    },
    "base": {"fedproto": tinyproto.on_fedproto, "fedtgp": tinyproto.on_fedtgp},
    "masks": dict(masks.MASKS),
    "scaling": {
        "sum": tinyproto.SUM,
        "mean": tinyproto.MEAN,
        "sum_of_participants": tinyproto.SUM_OF_PARTICIPANTS,
        "none": tinyproto.UNSCALED,
    },
    "compare": {"dense": tinyproto.DENSE, "sparse": tinyproto.SPARSE},
    "distill": {"cpkd": cps_ppa_cpkd.cpkd, "none": fedproto.no_class_weights},
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
        "local": fedavg.local_statistics,
        "averaged": fedavg.averaged_statistics,
    },
    "pace": {  # of FAST's probability of a snapshot
        "fixed": fast.FIXED,
        "adaptive": fast.ADAPTIVE,
    },
    "backbone": {"trained": refprotofl.TRAINED, "frozen": refprotofl.FROZEN},
    "guide": {  # of FedL2G
        "features": fedl2g.features,
        "logits": fedl2g.logits,
    },
    "anchors": {"external": refprotofl.EXTERNAL, "none": refprotofl.NONE},
}
OPTIONS: Registry[MutableMapping[str, Any]] = Registry(  # argument -> name -> value
    "argument of methods",
    {key: Registry(f"value of method.{key}", _BUILTIN[key]) for key in _BUILTIN},
)
GROUPED_ARGUMENTS = (  # arguments whose fields are fields of a configuration
    fedproto.Pull,
    fedtgp.ServerTraining,
    tinyproto.Sparsity,
)
# argument -> field whose value replaces 0
INHERITED_FIELDS = {"server_batch": "local.batch_size"}
DERIVED_ARGUMENTS = {  # argument of a method -> configuration, its fields -> value
    "rounds": lambda run, fields: run.rounds,
    "num_clients": lambda run, fields: run.data.clients,
    "inner_rate": lambda run, fields: run.optimizer.learning_rate,
    "sgd": lambda run, fields: fednova.local_descent(
        run.optimizer, run.local.optimizer_state, "scaffold", one_rate=True
    ),
    "descent": lambda run, fields: fednova.local_descent(
        run.optimizer,
        run.local.optimizer_state,
        f"fednova with method.mu={fields['mu']}",
        one_rate=not is_zero(fields["mu"]),
    ),
}
NETWORKS = {"aux": "cnn4_d"}  # argument that is a network -> default
OLD_DEFAULTS = {  # method -> later fields, with the value that older versions implied
    "cps_ppa_cpkd": {"method.compare": "sparse"}
}

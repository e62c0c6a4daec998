"""Values of the arguments of methods, by their names in configurations."""

from collections.abc import Callable, MutableMapping
from typing import Any

from jaxproto import plugins
from jaxproto.core.hyperparameters import is_zero
from jaxproto.core.registry import Registry, places

_BUILTIN: dict[str, dict[str, Any]] = {
    "reg": places("prototypes.losses", "l2_of_means", "mse_mean", "sq_l2_mean"),
    "collect": places(
        "methods.fedproto", "after_training", "before_training", "train_pass"
    ),
    "aggregate": places(
        "prototypes.kernels",
        "mean_over_clients",
        "mean_over_examples",
        as_printed="mean_as_printed",
    ),
    "alignment": places("prototypes.transforms", thomson="THOMSON", none="IDENTITY"),
    "on_server": places(
        "prototypes.transforms", none="IDENTITY", carry_over="CARRY_OVER"
    ),
    "initial": places(  # global prototypes of ProtoNorm's first round
        "methods.protonorm", none="no_initial_prototypes", random="random_unit"
    ),
    "base": places("methods.tinyproto", fedproto="on_fedproto", fedtgp="on_fedtgp"),
    "masks": places(
        "prototypes.masks",
        free="random_masks",
        block="block_masks",
        block_exact="exact_block_masks",
        none="full_masks",
    ),
    "scaling": places(
        "methods.tinyproto",
        sum="SUM",
        mean="MEAN",
        sum_of_participants="SUM_OF_PARTICIPANTS",
        none="UNSCALED",
    ),
    "compare": places("methods.tinyproto", dense="DENSE", sparse="SPARSE"),
    "distill": places("methods.cps_ppa_cpkd", "cpkd")
    | places("methods.fedproto", none="no_class_weights"),
    "pull": places("prototypes.losses", "sq_l2_mean", "mse_mean")
    | places("methods.refprotofl", "sq_l2_sum"),
    "target": places("methods.fml", "detached", "attached"),  # of mutual distillation
    "distance": places(  # of FedDistill: docs/decisions.md#feddistill
        "methods.feddistill", "softmax_ce", "mse", "raw_ce"
    ),
    "statistics": places(  # of BatchNorm, in the methods that average whole networks
        "methods.fedavg", local="local_statistics", averaged="averaged_statistics"
    ),
    "pace": places("methods.fast", fixed="FIXED", adaptive="ADAPTIVE"),  # of snapshots
    "backbone": places("methods.refprotofl", trained="TRAINED", frozen="FROZEN"),
    "guide": places("methods.fedl2g", "features", "logits"),
    "anchors": places("methods.refprotofl", external="EXTERNAL", none="NONE"),
}
OPTIONS: Registry[MutableMapping[str, Any]] = Registry(  # argument -> name -> value
    "argument of methods",
    {key: Registry(f"value of method.{key}", _BUILTIN[key]) for key in _BUILTIN},
)
# argument -> field whose value replaces 0
INHERITED_FIELDS = {"server_batch": "local.batch_size"}
local_descent = plugins.lazy("jaxproto.methods.fednova:local_descent")
DERIVED_ARGUMENTS: Registry[Callable] = Registry(
    "argument of methods",
    {  # argument of a method -> configuration, its fields -> value
        "rounds": lambda run, fields: run.rounds,
        "num_clients": lambda run, fields: run.data.clients,
        "inner_rate": lambda run, fields: run.optimizer.learning_rate,
        "sgd": lambda run, fields: local_descent(
            run.optimizer, run.local.optimizer_state, "scaffold", one_rate=True
        ),
        "descent": lambda run, fields: local_descent(
            run.optimizer,
            run.local.optimizer_state,
            f"fednova with method.mu={fields['mu']}",
            one_rate=not is_zero(fields["mu"]),
        ),
    },
    group="jaxproto.derived_arguments",
)
NETWORKS = {"aux": "cnn4_d"}  # argument that is a network -> default
OLD_DEFAULTS = {  # method -> later fields, with the value that older versions implied
    "cps_ppa_cpkd": {"method.compare": "sparse"}
}

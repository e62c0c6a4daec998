"""ProtoNorm, Table 5: FedProto and FedTGP scaled by gamma, without an alignment.

    jaxproto sweep --config=sweeps/protonorm_table5                # FedProto, CIFAR-10
    jaxproto sweep --config=sweeps/protonorm_table5:fedtgp
    jaxproto sweep --config=sweeps/protonorm_table5:cifar100
    jaxproto sweep --config=sweeps/protonorm_table5:cifar100,fedtgp
    jaxproto sweep --config=sweeps/protonorm_table5:digits         # a first try

The cells of `configs/table.py protonorm5`, three seeds of each, with d = 512. In the
paper some of them fail to converge. The picture is
`accuracy_against_method.upscale.png`, the numbers with the printed ones beside them
`compare.md`, both in the folder of the sweep.
"""

from jaxproto import config
from jaxproto.config import presets

NAME = "protonorm_table5"


def get_config(arg: str = ""):
    """The configuration; `arg` has a method and presets of its configuration."""
    method, given = config.parse_sweep_arg(arg, ["fedproto", "fedtgp"], "cifar10")
    made = config.experiment(method, given)
    made.name = f"{NAME}-{method}"
    config.apply_fields(made, presets.PROTONORM)
    return made


def get_sweep():
    return {"seed": [0, 1, 2], "method.upscale": [1.0, 1.1, 1.2, 1.3, 1.4]}

"""ProtoNorm, Table 4: accuracy against the factor gamma of the prototypes.

    jaxproto sweep --config=sweeps/protonorm_table4                # CIFAR-100
    jaxproto sweep --config=sweeps/protonorm_table4:flowers102
    jaxproto sweep --config=sweeps/protonorm_table4:tiny_imagenet
    jaxproto sweep --config=sweeps/protonorm_table4:digits         # a first try

The cells of `configs/table.py protonorm4`, three seeds of each, with d = 512. gamma is
an argument of the compiled programs, so all cells share one set. The picture is
`accuracy_against_method.upscale.png`, the numbers with the printed ones beside them
`compare.md`, both in the folder of the sweep.
"""

from jaxproto import config
from jaxproto.config import presets

NAME = "protonorm_table4"


def get_config(arg: str = ""):
    """The configuration; `arg` has presets of configs/protonorm.py."""
    method, given = config.parse_sweep_arg(arg, ["protonorm"], "cifar100")
    made = config.experiment(method, given)
    made.name = NAME
    config.apply_fields(made, presets.PROTONORM)
    return made


def get_sweep():
    return {"seed": [0, 1, 2], "method.upscale": [1, 200, 400, 600, 800, 1000]}

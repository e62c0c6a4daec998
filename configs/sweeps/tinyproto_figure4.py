"""TinyProto, Figure 4: accuracy of TinyProto-FT against s, the coordinates per class.

    jaxproto sweep --config=sweeps/tinyproto_figure4               # CIFAR-100
    jaxproto sweep --config=sweeps/tinyproto_figure4:cifar10
    jaxproto sweep --config=sweeps/tinyproto_figure4:cifar10,fp    # TinyProto-FP
    jaxproto sweep --config=sweeps/tinyproto_figure4:digits        # a first try

s is 50, 150, ..., 450 of d = 500, and the same shares of another d, three seeds of
each: the paper's text does not print the values of its figure, these are those of Table
2 of CPS + PPA + CPKD. s is a shape, so every s has programs of its own. The picture is
`accuracy_against_method.s.png` in the folder of the sweep.
"""

from jaxproto import config
from jaxproto.config import presets

NAME = "tinyproto_figure4"


def get_config(arg: str = ""):
    """The configuration; `arg` has presets of configs/tinyproto.py."""
    method, given = config.parse_sweep_arg(arg, ["tinyproto"], "cifar100")
    base = "" if "fp" in given.split(",") else ",ft"
    made = config.experiment(method, given + base)
    made.name = NAME
    return made


def get_sweep(arg: str = ""):
    width = get_config(arg).model.feat_dim
    return {"seed": [0, 1, 2], "method.s": presets.widths(width)}

"""TinyProto, Figure 4: accuracy of TinyProto-FT against s, the coordinates per class.

    jaxproto sweep --config=sweeps/tinyproto_figure4               # CIFAR-100
    jaxproto sweep --config=sweeps/tinyproto_figure4:cifar10
    jaxproto sweep --config=sweeps/tinyproto_figure4:cifar10,fp    # TinyProto-FP
    jaxproto sweep --config=sweeps/tinyproto_figure4:digits        # a quick try

s is 50, 150, ..., 450 for d = 500, and the same fractions of another d, with three
seeds each. The paper does not state the values of its figure; these are the values of
Table 2 of CPS + PPA + CPKD. s is a shape, so each value needs its own programs. The
sweep writes the figure `accuracy_against_method.s.png` to its directory.
"""

from jaxproto import config
from jaxproto.config import presets


def get_config(arg: str = ""):
    method, names = config.parse_sweep_arg(arg, ["tinyproto"], "cifar100")
    base = "" if "fp" in names.split(",") else ",ft"
    c = config.experiment(method, names + base)
    c.name = "tinyproto_figure4"
    return c


def get_sweep(arg: str = ""):
    feat_dim = get_config(arg).model.feat_dim
    return {"seed": [0, 1, 2], "method.s": presets.widths(feat_dim)}

"""TinyProto, Figure 5: TinyProto-FP against s, FedProto against d, at equal cost.

    jaxproto sweep --config=sweeps/tinyproto_figure5               # -FP, CIFAR-100
    jaxproto sweep --config=sweeps/tinyproto_figure5:fedproto
    jaxproto sweep --config=sweeps/tinyproto_figure5:cifar10,fedproto
    jaxproto sweep --config=sweeps/tinyproto_figure5:digits        # a quick try

s (TinyProto) or d (FedProto) is 50, 150, ..., 450 for d = 500, and the same fractions
of another d, with three seeds each. `tinyproto_figure4.py` explains the values. Both
are shapes, so each value needs its own programs. The sweeps write the figures
`accuracy_against_method.s.png` and `accuracy_against_model.feat_dim.png` to their
directories. To draw the runs of both sweeps (below `runs/`) in one figure, as in the
paper:

    jaxproto plot accuracy_against_field RUN... --field method.s,model.feat_dim
"""

from jaxproto import config
from jaxproto.config import presets


def get_config(arg: str = ""):
    method, names = config.parse_sweep_arg(arg, ["tinyproto", "fedproto"], "cifar100")
    c = config.experiment(method, names)
    c.name = f"tinyproto_figure5-{method}"
    return c


def get_sweep(arg: str = ""):
    c = get_config(arg)
    field = "method.s" if c.method.name == "tinyproto" else "model.feat_dim"
    return {"seed": [0, 1, 2], field: presets.widths(c.model.feat_dim)}

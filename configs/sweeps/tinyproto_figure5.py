"""TinyProto, Figure 5: TinyProto-FP against s, FedProto against d, at equal cost.

    jaxproto sweep --config=sweeps/tinyproto_figure5               # -FP, CIFAR-100
    jaxproto sweep --config=sweeps/tinyproto_figure5:fedproto
    jaxproto sweep --config=sweeps/tinyproto_figure5:cifar10,fedproto
    jaxproto sweep --config=sweeps/tinyproto_figure5:digits        # a first try

s, or d in its place, is 50, 150, ..., 450 where d = 500, and the same shares of another
d, three seeds of each; where the values are from: `tinyproto_figure4.py`. Both are
shapes, so every value has programs of its own. The pictures are
`accuracy_against_method.s.png` and `accuracy_against_model.feat_dim.png` in the folders
of the sweeps; of the runs of both (below `runs/`) in one, as in the paper:

    jaxproto plot accuracy_against_field OUT.png RUN... --field method.s,model.feat_dim
"""

from jaxproto import config
from jaxproto.config import presets

NAME = "tinyproto_figure5"


def get_config(arg: str = ""):
    """The configuration; `arg` has a method and presets of its configuration."""
    method, given = config.parse_sweep_arg(arg, ["tinyproto", "fedproto"], "cifar100")
    made = config.experiment(method, given)
    made.name = f"{NAME}-{method}"
    return made


def get_sweep(arg: str = ""):
    made = get_config(arg)
    field = "method.s" if made.method.name == "tinyproto" else "model.feat_dim"
    return {"seed": [0, 1, 2], field: presets.widths(made.model.feat_dim)}

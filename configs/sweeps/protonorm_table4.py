"""ProtoNorm, Table 4: accuracy against the factor gamma of the prototypes.

    jaxproto sweep --config=sweeps/protonorm_table4                # CIFAR-100
    jaxproto sweep --config=sweeps/protonorm_table4:flowers102
    jaxproto sweep --config=sweeps/protonorm_table4:tiny_imagenet
    jaxproto sweep --config=sweeps/protonorm_table4:digits         # a quick try

These are the cells of `configs/table.py protonorm4` with three seeds each and d = 512.
gamma is an argument of the compiled programs, so all cells share one set. The sweep
writes the figure `accuracy_against_method.upscale.png` and the measured and published
numbers in `compare.md` to its directory.
"""

from jaxproto import config
from jaxproto.config import presets


def get_config(arg: str = ""):
    method, names = config.parse_sweep_arg(arg, ["protonorm"], "cifar100")
    c = config.experiment(method, names)
    c.name = "protonorm_table4"
    config.apply_fields(c, presets.PROTONORM)
    return c


def get_sweep():
    return {"seed": [0, 1, 2], "method.upscale": [1, 200, 400, 600, 800, 1000]}

"""ProtoNorm, Table 5: FedProto and FedTGP scaled by gamma, without an alignment.

    jaxproto sweep --config=sweeps/protonorm_table5                # FedProto, CIFAR-10
    jaxproto sweep --config=sweeps/protonorm_table5:fedtgp
    jaxproto sweep --config=sweeps/protonorm_table5:cifar100
    jaxproto sweep --config=sweeps/protonorm_table5:cifar100,fedtgp
    jaxproto sweep --config=sweeps/protonorm_table5:digits         # a quick try

These are the cells of `configs/table.py protonorm5` with three seeds each and d = 512.
In the paper, some of them do not converge. The sweep writes the figure
`accuracy_against_method.upscale.png` and the measured and published numbers in
`compare.md` to its directory.
"""

from jaxproto import config
from jaxproto.config import presets


def get_config(arg: str = ""):
    method, names = config.parse_sweep_arg(arg, ["fedproto", "fedtgp"], "cifar10")
    c = config.experiment(method, names)
    c.name = f"protonorm_table5-{method}"
    config.apply_fields(c, presets.PROTONORM)
    return c


def get_sweep():
    return {"seed": [0, 1, 2], "method.upscale": [1.0, 1.1, 1.2, 1.3, 1.4]}

"""One cell of the Fashion-MNIST comparison in results/fashion_mnist.

    python main.py --config=configs/comparison.py:tinyproto_ft --config.seed=2
    python main.py --config=configs/comparison.py:tinyproto_ft,paper

`python -m results.fashion_mnist.run` runs all cells and resumes interrupted runs.

Setting: 70,000 pooled images, 20 clients, Dirichlet 0.1 (`pfllib`, seed 1), the 4-layer
CNN of width d = 500 on every client, batch 32, SGD 0.01, one epoch per round, 50
rounds. By default, all methods have one common reading: every pull is a squared error
per element with lam 10. `,paper` implements each method as its paper describes it,
`,code` as its released code does. Other hyper-parameters are those for CIFAR-10, which
has as many classes and nearly as many examples. The public examples of RefProtoFL,
FedMD and FedDF, 1 % of all, are taken from the clients; apart from that, all methods
have the same clients.
"""

from jaxproto import config
from jaxproto.config import presets
from jaxproto.errors import choose_from
from jaxproto.methods import METHODS
from jaxproto.papers import variants

SETTING = {
    "data.clients": 20,
    "model.group": "cnn4_d",
    "rounds": 50,
    "eval_every": 5,
    "local.epochs": 1,  # of FedMD, FedPAC and FedRep half for each phase
}
SERVER = {"method.server_batch": 32}
CPS = {"method.s": 50, **SERVER}
BLOCKS = {**CPS, "method.masks": "block"}  # S 4.1
ON_FEDTGP = {"method.base": "fedtgp"}
CELLS = {  # every method, and the fields that some methods need
    **{name: {} for name in METHODS},
    "fedtgp": SERVER,
    "protonorm": {"method.upscale": 100.0},
    "tinyproto": {**CPS, "method.mu": 1.5e-4},  # -FP
    "tinyproto_ft": {**CPS, **ON_FEDTGP, "method.mu": 1.5e-4},
    "cps_ppa_cpkd": BLOCKS,  # on FedProto
    "cps_ppa_cpkd_ft": {**BLOCKS, **ON_FEDTGP},
    **{name: {"data.public_share": 0.01} for name in ("refprotofl", "fedmd", "feddf")},
    "fedgh": SERVER,
    "fednh": presets.RUN_FIELDS["fednh"],
    "fast": presets.RUN_FIELDS["fast"],
}


def get_config(arg: str = "protonorm"):
    """Returns the configuration of METHOD[_ft][,READING]; `_ft` extends FedTGP."""
    cell, _, reading = arg.partition(",")
    fields = CELLS[choose_from("cell of the comparison", cell, CELLS)]
    c = config.experiment(cell.removesuffix("_ft"), "fashion_mnist")
    c.name = f"comparison-{arg.replace(',', '-')}"
    config.apply_fields(c, {**SETTING, **fields})
    if reading:
        config.require_reading(c.method.name, reading)
        config.apply_fields(c, variants.in_table(c.method.name, reading))
    return c

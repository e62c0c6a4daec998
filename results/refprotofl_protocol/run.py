"""RefProtoFL's Table 2 on Fashion-MNIST, with the 4-layer CNN instead of ResNet-18.

    python -m results.refprotofl_protocol.run OUT DATA_DIR [WORD...]

Alpha 0.5 before 100, then FedProto with the pull of the papers. Called again, it
resumes. Arguments: results/series.py.
"""

import sys
from pathlib import Path

from results import series

METHODS = (
    "local",
    "fedavg",
    "fedprox",
    "fednova",
    "vhl",
    "fast",
    "fedproto",
    "fedgh",
    "refprotofl",
)
LOCAL = {"0.5": "refprotofl", "100": "refprotofl100"}  # in no table
PAPER = ["--config.method.reg=l2_of_means", "--config.method.lam=1.0"]  # of FedProto
FLAGS = {"fedgh": ["--config.method.server_batch=64"]}  # as the clients' batch
SMALLER = ["--config.model.group=cnn4_d", "--config.eval_every=5"]


def cell(method: str, alpha: str) -> tuple[str, list[str]]:
    """Returns configuration and flags of a method."""
    if method == "local":
        setting = f"local.py:fashion_mnist,{LOCAL[alpha]}"
        return setting, ["--config.data.partition=dirichlet"]  # as the tables' cells
    table = f"table.py:refprotofl2,fashion-mnist-{method}-alpha{alpha}"
    return table, FLAGS.get(method, [])


def runs():
    """Yields name, configuration and flags of every run."""
    for alpha in ("0.5", "100"):
        for method in METHODS:
            config, flags = cell(method, alpha)
            config += ":reading=paper" * (method == "refprotofl")  # its lam is 0.1
            yield f"{method}-{alpha}", config, [*SMALLER, *flags]
    config, _ = cell("fedproto", "0.5")
    yield "fedproto_l2-0.5", config, [*SMALLER, *PAPER]


if __name__ == "__main__":
    series.make(runs(), sys.argv[1:], Path(__file__).parent / "records")

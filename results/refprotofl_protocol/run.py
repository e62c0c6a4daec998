"""RefProtoFL's Table 2 on Fashion-MNIST, with the 4-layer CNN instead of ResNet-18.

    python -m results.refprotofl_protocol.run OUT DATA_DIR [WORD...]

Alpha 0.5 before 100, then FedProto with the pull of the papers. Called again, it
resumes. Arguments: results/series.py.
"""

import sys
from pathlib import Path

from results import series

METHODS = (
    "fedavg",
    "fedprox",
    "fednova",
    "vhl",
    "fast",
    "fedproto",
    "fedgh",
    "refprotofl",
)
PAPER = ["--config.method.reg=l2_of_means", "--config.method.lam=1.0"]  # of FedProto
FLAGS = {"fedgh": ["--config.method.server_batch=64"]}  # as the clients' batch
SMALLER = ["--config.model.group=cnn4_d", "--config.eval_every=5"]


def runs():
    """Yields name, configuration and flags of every run."""
    for alpha in ("0.5", "100"):
        for method in METHODS:
            cell = f"fashion-mnist-{method}-alpha{alpha}"
            cell += ":reading=paper" * (method == "refprotofl")  # its lam is 0.1
            flags = [*SMALLER, *FLAGS.get(method, [])]
            yield f"{method}-{alpha}", f"table.py:refprotofl2,{cell}", flags
    cell = "fashion-mnist-fedproto-alpha0.5"
    yield "fedproto_l2-0.5", f"table.py:refprotofl2,{cell}", [*SMALLER, *PAPER]


if __name__ == "__main__":
    series.make(runs(), sys.argv[1:], Path(__file__).parent / "records")

"""A round of every registered method: Flowers-102 (K = 102), and 1,000 clients.

    python -m results.every_method.run OUT DATA_DIR [WORD...]

DATA_DIR holds flowers102_32.npz beside TFDS's fashion_mnist. More: results/series.py.
"""

import sys

from jaxproto.methods import METHODS
from results import series

ONE_ROUND = ["--config.rounds=1", "--config.model.group=cnn4_d"]


def runs(data_dir: str):
    """Yields name, configuration and flags of every run."""
    flowers = [f"--config.data.name=npz:{data_dir}/flowers102_32.npz"]
    flowers += ["--config.data.pixels=0"]
    thousand = ["--config.data.clients=1000", "--config.data.min_size=2"]
    thousand += ["--config.model.feat_dim=64", "--config.data.pool=True"]
    public = ["--config.data.public_share=0.02"]
    for name in METHODS:
        more = [*ONE_ROUND, *(public if name == "refprotofl" else [])]
        yield f"flowers-{name}", f"{name}.py:flowers102", [*flowers, *more]
        yield f"thousand-{name}", f"{name}.py:fashion_mnist", [*thousand, *more]


if __name__ == "__main__":
    series.make(runs(sys.argv[2] if len(sys.argv) > 2 else ""), sys.argv[1:])

"""ProtoNorm's Table 1 on CIFAR-10 with Ht0, Dirichlet 0.1, shortened.

    python -m results.cifar10.run OUT DATA_DIR [WORD...]

20 clients (`pfllib`), d = 512, one seed; DATA_DIR holds cifar10.npz. Arguments:
results/series.py.
"""

import sys
from pathlib import Path

from results import series

ROUNDS = 10  # of the paper's 300
CELLS = {  # of the table, and Local in the same setting
    name: f"table.py:protonorm1,cifar10-{name}-dirichlet-alpha0.1"
    for name in ("protonorm", "fedproto", "fedtgp")
} | {"local": "local.py:cifar10"}


def runs(data_dir: str = ""):
    """Yields name, configuration and flags of every run."""
    short = [f"--config.rounds={ROUNDS}", "--config.eval_every=2"]
    short += ["--config.model.feat_dim=512"]
    short += [f"--config.data.name=npz:{Path(data_dir, 'cifar10.npz')}"]
    for name, config in CELLS.items():
        yield f"{name}-0", config, short


if __name__ == "__main__":
    data_dir = sys.argv[2] if len(sys.argv) > 2 else ""
    series.make(runs(data_dir), sys.argv[1:], Path(__file__).parent / "records")

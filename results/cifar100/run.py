"""ProtoNorm's Table 3 on CIFAR-100 with the 4-layer CNN, shortened.

    python -m results.cifar100.run OUT DATA_DIR [WORD...]

20 clients, Dirichlet 0.1 (`pfllib`), d = 512, one seed; DATA_DIR holds cifar100.npz.
With a larger ROUNDS, and its record deleted, a run goes on. Arguments:
results/series.py.
"""

import sys
from pathlib import Path

from results import series

ROUNDS = 16  # of the paper's 300
LONGER = {"protonorm_clip": 100}  # rounds of those that have more
TABLE = "table.py:protonorm3,cifar100-{}-hmcnn"
OTHER = ["--config.model.group=HmCNN", "--config.model.feat_dim=512"]  # as Table 3's
RUNS = {  # name -> configuration, flags; the table has three of them
    "protonorm": (TABLE.format("protonorm"), []),
    "fedproto": ("fedproto.py:cifar100", OTHER),
    "protonorm_g1": (TABLE.format("protonorm"), ["--config.method.upscale=1.0"]),
    "feduv": (TABLE.format("feduv"), []),
    "protonorm_clip": (TABLE.format("protonorm"), ["--config.optimizer.clip_norm=100"]),
    "local": ("local.py:cifar100", OTHER),
    "fednh": (TABLE.format("fednh"), []),
    "lg_fedavg": ("lg_fedavg.py:cifar100", OTHER),
    "fedtgp": ("fedtgp.py:cifar100", [*OTHER, "--config.method.server_batch=32"]),
}


def runs(data_dir: str = ""):
    """Yields name, configuration and flags of every run."""
    data = f"--config.data.name=npz:{Path(data_dir, 'cifar100.npz')}"
    for name, (config, flags) in RUNS.items():
        rounds = f"--config.rounds={LONGER.get(name, ROUNDS)}"
        yield f"{name}-0", config, [*flags, rounds, "--config.eval_every=2", data]


if __name__ == "__main__":
    data_dir = sys.argv[2] if len(sys.argv) > 2 else ""
    series.make(runs(data_dir), sys.argv[1:], Path(__file__).parent / "records")

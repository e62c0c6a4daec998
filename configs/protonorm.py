"""ProtoNorm on clients of different architectures.

    python main.py --config=configs/protonorm.py                 # digits
    python main.py --config=configs/protonorm.py:spiral
    python main.py --config=configs/protonorm.py:fashion_mnist   # with data_dir
    python main.py --config=configs/protonorm.py:flowers102      # 64 x 64 pixels
    python main.py --config=configs/protonorm.py:spiral,code     # the released code

Ablation (Section 5.3): --config.method.alignment=none and --config.method.upscale=1.
For measured times and accuracies, see the README.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.aggregate": "mean_over_clients",
    "method.alignment": "thomson",
    "method.collect": "after_training",
    "method.initial": "none",
    "method.lam": 1.28,
    "method.on_server": "none",
    "method.reg": "mse_mean",
    "method.upscale": 50.0,  # our choice: best of 1, 5, 10, 25, 50
}
VARIANTS = {
    "spiral": {"method.upscale": 10.0},  # Figure 2 (d)
    "mnist": {"method.upscale": 100.0},  # as CIFAR-10
    "fashion_mnist": {"method.upscale": 100.0},  # as CIFAR-10
    "gtsrb": {"method.upscale": 100.0},  # as CIFAR-10
    **{name: {"method.upscale": gamma} for name, gamma in presets.UPSCALE.items()},
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    return config.experiment("protonorm", arg, VARIANTS)

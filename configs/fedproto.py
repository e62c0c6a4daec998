"""FedProto on clients of different architectures.

    python main.py --config=configs/fedproto.py                  # digits
    python main.py --config=configs/fedproto.py:spiral
    python main.py --config=configs/fedproto.py:fashion_mnist    # with data_dir
    python main.py --config=configs/fedproto.py:cifar10
    python main.py --config=configs/fedproto.py:cifar10,code     # HtFLlib's code
    python main.py --config=configs/fedproto.py:cifar10,paper    # lam 1, distance

For measured times and accuracies, see the README.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.aggregate": "mean_over_clients",
    "method.collect": "after_training",
    "method.lam": 1.28,
    "method.on_server": "none",
    "method.reg": "mse_mean",
    "method.upscale": 1.0,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedproto", arg, VARIANTS)

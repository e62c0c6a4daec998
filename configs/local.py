"""Local training without communication, the baseline of every comparison.

    python main.py --config=configs/local.py                     # digits
    python main.py --config=configs/local.py:spiral
    python main.py --config=configs/local.py:fashion_mnist       # with data_dir
    python main.py --config=configs/local.py:cifar10,refprotofl  # RefProtoFL 5.1

For measured times and accuracies, see the README.
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = {**presets.IN_REFPROTOFL, "digits": presets.FIRST}


def get_config(arg: str = "digits"):
    return config.experiment("local", arg, VARIANTS)

"""FedPCL: features are contrasted with the prototypes of all clients.

    python main.py --config=configs/fedpcl.py                   # digits
    python main.py --config=configs/fedpcl.py:spiral
    python main.py --config=configs/fedpcl.py:fashion_mnist     # with data_dir
    python main.py --config=configs/fedpcl.py:cifar10

Rule `head` evaluates the nearest prototype of the client itself.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST, "method.temperature": 0.07}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedpcl", arg, VARIANTS)

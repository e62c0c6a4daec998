"""FedGen: a shared head, and a generator of features that teaches it all classes.

    python main.py --config=configs/fedgen.py                   # digits
    python main.py --config=configs/fedgen.py:spiral
    python main.py --config=configs/fedgen.py:fashion_mnist     # with data_dir
    python main.py --config=configs/fedgen.py:cifar10

Rule `head` evaluates the client's own network after local training, `received` the
server's head on the client's body.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.hidden": 512,
    "method.noise": 512,
    "method.server_batch": 0,
    "method.server_epochs": 100,
    "method.server_rate": 0.005,
    "method.weight": 1.0,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedgen", arg, VARIANTS)

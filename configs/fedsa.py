"""FedSA: features and classifiers follow anchors that move to the prototypes.

    python main.py --config=configs/fedsa.py                      # digits
    python main.py --config=configs/fedsa.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedsa.py:cifar10

Rule `head` evaluates the client's own network after local training, `global` the
nearest anchor, `local` the nearest own prototype.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.calibration": 1.0,
    "method.contrastive": 1.0,
    "method.keep": 0.9999,
    "method.lam": 1.0,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedsa", arg, VARIANTS)

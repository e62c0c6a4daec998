"""FedMRL: a small shared network whose features are fused with the client's own.

    python main.py --config=configs/fedmrl.py                      # digits
    python main.py --config=configs/fedmrl.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedmrl.py:cifar10

Rule `head` evaluates the client's own head on the fused features, `aux` that of the
shared network on their first entries.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.aux": "cnn4_d",
    "method.aux_dim": 16,  # a quarter, as 128 of 512
}
VARIANTS = {**presets.AUX, "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedmrl", arg, VARIANTS)

"""Ditto: a personal network that stays near the one that FedAvg trains.

    python main.py --config=configs/ditto.py                        # digits
    python main.py --config=configs/ditto.py:fashion_mnist          # with data_dir
    python main.py --config=configs/ditto.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/ditto.py:cifar10,refprotofl100  # alpha 100

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. Rule `received` evaluates the global network, `head` the
client's personal network.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST_AVERAGED, "method.mu": 1.0}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("ditto", arg, VARIANTS)

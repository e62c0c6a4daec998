"""MOON: FedAvg whose features stay close to those of the global network.

    python main.py --config=configs/moon.py                        # digits
    python main.py --config=configs/moon.py:fashion_mnist          # with data_dir
    python main.py --config=configs/moon.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/moon.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "method.contrastive": 1.0,
    "method.statistics": "local",
    "method.temperature": 0.5,
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("moon", arg, VARIANTS)

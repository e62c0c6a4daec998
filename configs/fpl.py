"""FPL: FedAvg with several global prototypes of each class, one for each cluster.

    python main.py --config=configs/fpl.py                        # digits
    python main.py --config=configs/fpl.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fpl.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fpl.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`. Rule `global` evaluates the nearest
prototype as well.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "method.statistics": "local",
    "method.temperature": 0.02,
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fpl", arg, VARIANTS)

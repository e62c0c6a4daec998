"""FedDyn: FedAvg with a local regulariser that follows the client's gradient.

    python main.py --config=configs/feddyn.py                        # digits
    python main.py --config=configs/feddyn.py:fashion_mnist          # with data_dir
    python main.py --config=configs/feddyn.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/feddyn.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST_AVERAGED, "method.mu": 0.01, "method.statistics": "local"}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("feddyn", arg, VARIANTS)

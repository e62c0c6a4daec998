"""SCAFFOLD: FedAvg whose local steps are corrected by control variates.

    python main.py --config=configs/scaffold.py                        # digits
    python main.py --config=configs/scaffold.py:fashion_mnist          # with data_dir
    python main.py --config=configs/scaffold.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/scaffold.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.

The optimizer must be SGD with a constant learning rate.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "method.server_rate": 1.0,
    "method.statistics": "local",
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("scaffold", arg, VARIANTS)

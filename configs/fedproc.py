"""FedProc: FedAvg whose features are contrasted with global prototypes at first.

    python main.py --config=configs/fedproc.py                        # digits
    python main.py --config=configs/fedproc.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fedproc.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fedproc.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "method.statistics": "local",
    "method.temperature": 1.0,
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedproc", arg, VARIANTS)

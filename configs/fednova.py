"""FedNova: FedAvg of updates normalised by the number of local steps.

    python main.py --config=configs/fednova.py                        # digits
    python main.py --config=configs/fednova.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fednova.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fednova.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.

Only SGD is supported; the normalisation depends on optimizer.momentum and
optimizer.learning_rate. `code` has the settings of the command in the released README.
The released code uses VGG-11 and divides the learning rate by 10 after half and after
three quarters of the rounds; here it is constant.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "method.mu": 0.0,
    "method.server_momentum": 0.0,
    "method.statistics": "local",
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fednova", arg, VARIANTS)

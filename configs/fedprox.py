"""FedProx: FedAvg with a proximal term towards the global network.

    python main.py --config=configs/fedprox.py                        # digits
    python main.py --config=configs/fedprox.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fedprox.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fedprox.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.

RefProtoFL does not state mu; VHL's and FedUV's code use --config.method.mu=1.0. `code`
has the settings of the commands in the released README, without stragglers. They train
logistic regression with 10 clients per round (--config.participation.law=uniform).
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST_AVERAGED, "method.mu": 0.01, "method.statistics": "local"}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedprox", arg, VARIANTS)

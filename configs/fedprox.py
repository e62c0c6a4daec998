"""FedProx: FedAvg with a proximal term towards the global network.

    python main.py --config=configs/fedprox.py                        # digits
    python main.py --config=configs/fedprox.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fedprox.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fedprox.py:cifar10,refprotofl100  # alpha 100

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. Rule `received` evaluates the global network, `head` the
client's own network after local training.

RefProtoFL does not state mu; VHL's and FedUV's code use --config.method.mu=1.0. `code`
has the settings of the commands in the released README, without stragglers. They train
logistic regression with 10 clients per round (--config.participation.law=uniform).
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "model.group": "cnn4_d",
    "method.mu": 0.01,
    "method.statistics": "local",
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fedprox", arg, VARIANTS)

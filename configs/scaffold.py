"""SCAFFOLD: FedAvg whose local steps are corrected by control variates.

    python main.py --config=configs/scaffold.py                        # digits
    python main.py --config=configs/scaffold.py:fashion_mnist          # with data_dir
    python main.py --config=configs/scaffold.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/scaffold.py:cifar10,refprotofl100  # alpha 100

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. Rule `received` evaluates the global network, `head` the
client's own network after local training.

The optimizer must be SGD with a constant learning rate.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "model.group": "cnn4_d",
    "method.server_rate": 1.0,
    "method.statistics": "local",
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("scaffold", arg, VARIANTS)

"""FedDF: FedAvg whose mean learns from all networks on public examples.

    python main.py --config=configs/feddf.py                      # digits
    python main.py --config=configs/feddf.py:fashion_mnist        # with data_dir
    python main.py --config=configs/feddf.py:cifar10

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. The public examples are 5 % of all, taken from the
clients. Rule `received` evaluates the global network, `head` the client's own network
after local training.
"""

from jaxproto import config
from jaxproto.config import presets

PUBLIC = {"data.public_share": 0.05, "data.public_classes": 1.0}  # our choice
DIGITS = {
    **presets.FIRST,
    "model.group": "cnn4_d",
    **PUBLIC,
    "method.server_batch": 0,
    "method.server_epochs": 100,
    "method.server_rate": 0.001,
    "method.statistics": "local",
}
VARIANTS = {**presets.averaging(PUBLIC), "digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("feddf", arg, VARIANTS)

"""FedRep: private heads, trained before the body that all clients share.

    python main.py --config=configs/fedrep.py                        # digits
    python main.py --config=configs/fedrep.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fedrep.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fedrep.py:cifar10,refprotofl100  # alpha 100

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. Rule `head` evaluates the client's own network after
local training.

One epoch trains the head, and one the body. For ten epochs of the head, set
--config.local.epochs=11 and --config.method.head_share=0.909.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "model.group": "cnn4_d",
    "local.epochs": 2,
    "method.head_share": 0.5,
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fedrep", arg, VARIANTS)

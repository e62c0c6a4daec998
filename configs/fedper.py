"""FedPer: a shared body under private heads.

    python main.py --config=configs/fedper.py                        # digits
    python main.py --config=configs/fedper.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fedper.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fedper.py:cifar10,refprotofl100  # alpha 100

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. Rule `head` evaluates the client's own network after
local training.
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = {**presets.averaging(), "digits": presets.FIRST_AVERAGED}


def get_config(arg: str = "digits"):
    return config.experiment("fedper", arg, VARIANTS)

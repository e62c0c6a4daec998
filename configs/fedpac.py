"""FedPAC: a shared body, and for each client its own combination of all heads.

    python main.py --config=configs/fedpac.py                      # digits
    python main.py --config=configs/fedpac.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedpac.py:cifar10

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. Rule `head` evaluates the client's own network after
local training, `received` its combination of heads on the received body. One epoch
trains the head, and one the body.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "local.epochs": 2,
    "method.head_share": 0.5,
    "method.lam": 1.0,
}
VARIANTS = {**presets.averaging({"local.epochs": 2}), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedpac", arg, VARIANTS)

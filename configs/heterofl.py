"""HeteroFL and FedRolex: clients train narrower parts of one network.

    python main.py --config=configs/heterofl.py                      # digits
    python main.py --config=configs/heterofl.py:fashion_mnist        # with data_dir
    python main.py --config=configs/heterofl.py --config.method.rolling=True  # FedRolex

All clients have parts of the same network, by default the 4-layer CNN. To use another
one, set --config.model.group=mlp. Rule `received` evaluates the client's part of the
server's network, `head` its own part after local training.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST_AVERAGED, "method.levels": 3, "method.rolling": False}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("heterofl", arg, VARIANTS)

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

DIGITS = {  # 1,797 images of 8 x 8 pixels
    "data.clients": 20,
    "data.partition": "dirichlet",
    "data.alpha": 0.1,
    "data.train_share": 0.75,
    "model.group": "cnn4_d",
    "model.feat_dim": 64,
    "rounds": 50,
    "local.epochs": 1,
    "local.batch_size": 10,
    "optimizer.name": "sgd",
    "optimizer.learning_rate": 0.05,
    "optimizer.momentum": 0.0,
    "method.levels": 3,
    "method.rolling": False,
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("heterofl", arg, VARIANTS)

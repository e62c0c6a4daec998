"""Local training without communication, the baseline of every comparison.

    python main.py --config=configs/local.py                     # digits
    python main.py --config=configs/local.py:spiral
    python main.py --config=configs/local.py:fashion_mnist       # with data_dir
    python main.py --config=configs/local.py:cifar10,refprotofl  # RefProtoFL 5.1

For measured times and accuracies, see the README.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {  # 1,797 images of 8 x 8 pixels
    "data.clients": 20,
    "data.partition": "dirichlet",
    "data.alpha": 0.1,
    "data.train_share": 0.75,
    "model.group": "digits",
    "model.feat_dim": 64,
    "rounds": 50,
    "local.epochs": 1,
    "local.batch_size": 10,
    "optimizer.name": "sgd",
    "optimizer.learning_rate": 0.05,
    "optimizer.momentum": 0.0,
}
VARIANTS = {**presets.IN_REFPROTOFL, "digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("local", arg, VARIANTS)

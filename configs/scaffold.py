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
    "method.server_rate": 1.0,
    "method.statistics": "local",
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("scaffold", arg, VARIANTS)

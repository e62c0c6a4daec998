"""FedPCL: features are contrasted with the prototypes of all clients.

    python main.py --config=configs/fedpcl.py                   # digits
    python main.py --config=configs/fedpcl.py:spiral
    python main.py --config=configs/fedpcl.py:fashion_mnist     # with data_dir
    python main.py --config=configs/fedpcl.py:cifar10

Rule `head` evaluates the nearest prototype of the client itself.
"""

from jaxproto import config

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
    "method.temperature": 0.07,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fedpcl", arg, VARIANTS)

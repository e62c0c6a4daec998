"""FedGen: a shared head, and a generator of features that teaches it all classes.

    python main.py --config=configs/fedgen.py                   # digits
    python main.py --config=configs/fedgen.py:spiral
    python main.py --config=configs/fedgen.py:fashion_mnist     # with data_dir
    python main.py --config=configs/fedgen.py:cifar10

Rule `head` evaluates the client's own network after local training, `received` the
server's head on the client's body.
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
    "method.hidden": 512,
    "method.noise": 512,
    "method.server_batch": 0,
    "method.server_epochs": 100,
    "method.server_rate": 0.005,
    "method.weight": 1.0,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fedgen", arg, VARIANTS)

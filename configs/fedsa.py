"""FedSA: features and classifiers follow anchors that move to the prototypes.

    python main.py --config=configs/fedsa.py                      # digits
    python main.py --config=configs/fedsa.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedsa.py:cifar10

Rule `head` evaluates the client's own network after local training, `global` the
nearest anchor, `local` the nearest own prototype.
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
    "method.calibration": 1.0,
    "method.contrastive": 1.0,
    "method.keep": 0.9999,
    "method.lam": 1.0,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fedsa", arg, VARIANTS)

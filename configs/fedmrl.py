"""FedMRL: a small shared network whose features are fused with the client's own.

    python main.py --config=configs/fedmrl.py                      # digits
    python main.py --config=configs/fedmrl.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedmrl.py:cifar10

Rule `head` evaluates the client's own head on the fused features, `aux` that of the
shared network on their first entries.
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
    "method.aux": "cnn4_d",
    "method.aux_dim": 16,  # a quarter, as 128 of 512
}
VARIANTS = {
    "spiral": {"method.aux": "spiral_mlp"},  # our choice: examples are not images
    "ag_news": presets.AUX_OF_TEXTS,
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fedmrl", arg, VARIANTS)

"""FedProto on clients of different architectures.

    python main.py --config=configs/fedproto.py                  # digits
    python main.py --config=configs/fedproto.py:spiral
    python main.py --config=configs/fedproto.py:fashion_mnist    # with data_dir
    python main.py --config=configs/fedproto.py:cifar10
    python main.py --config=configs/fedproto.py:cifar10,code     # HtFLlib's code
    python main.py --config=configs/fedproto.py:cifar10,paper    # lam 1, distance

For measured times and accuracies, see the README.
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
    "method.aggregate": "mean_over_clients",
    "method.collect": "after_training",
    "method.lam": 1.28,
    "method.on_server": "none",
    "method.reg": "mse_mean",
    "method.upscale": 1.0,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fedproto", arg, VARIANTS)

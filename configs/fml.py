"""FML: private networks of different architectures and a shared auxiliary network.

    python main.py --config=configs/fml.py                        # digits
    python main.py --config=configs/fml.py:spiral
    python main.py --config=configs/fml.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fml.py:cifar10                # TinyProto's setting
    python main.py --config=configs/fml.py:cifar100,code          # HtFLlib's code

To use another auxiliary network, set --config.method.aux=resnet8 (HtFLlib's code with
Ht0).

Published accuracies for alpha 0.1, 20 clients, d = 500, best of 300 rounds, rule `head`
(no run of ours has this length yet):

    CIFAR-10    TinyProto, Table 1: 87.60 %     CPS + PPA + CPKD, Table 1: 86.59 %
    CIFAR-100   TinyProto, Table 1: 43.73 %     CPS + PPA + CPKD, Table 1: 37.83 %
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
    "method.alpha": 0.5,
    "method.aux": "cnn4_d",
    "method.beta": 0.5,
    "method.clip": 10.0,
    "method.target": "detached",
}
VARIANTS = {
    "spiral": {"method.aux": "spiral_mlp"},  # our choice: examples are not images
    "ag_news": presets.AUX_OF_TEXTS,
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fml", arg, VARIANTS)

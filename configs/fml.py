"""FML: private networks of different architectures and a shared auxiliary network.

    python main.py --config=configs/fml.py                        # digits
    python main.py --config=configs/fml.py:spiral
    python main.py --config=configs/fml.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fml.py:cifar10                # TinyProto's setting
    python main.py --config=configs/fml.py:cifar100,code          # as HtFLlib's code

Another auxiliary network: --config.method.aux=resnet8 (HtFLlib's code with Ht0).

Printed for alpha 0.1, 20 clients, d = 500, 300 rounds, best round (T Table 1; S Table 1
where it differs), rule `head`: CIFAR-10 87.60 % (86.59), CIFAR-100 43.73 % (37.83). Not
reached by us yet: no run of that length.
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
    "rounds": 60,
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
    "spiral": {"method.aux": "spiral_mlp"},  # ours: two numbers are no image
    "ag_news": presets.AUX_OF_TEXTS,
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fml", arg, VARIANTS)

"""FedKD: private mentors and a shared mentee that travels as singular vectors.

    python main.py --config=configs/fedkd.py                      # digits
    python main.py --config=configs/fedkd.py:spiral
    python main.py --config=configs/fedkd.py:fashion_mnist        # data_dir of TFDS
    python main.py --config=configs/fedkd.py:cifar10              # TinyProto's setting
    python main.py --config=configs/fedkd.py:cifar100,code        # as HtFLlib's code

The energy rises over the configured number of rounds, from method.energy_start to
method.energy_end; 1 for both sends everything as it is.

Printed for alpha 0.1, 20 clients, d = 500, 300 rounds, best round (T Table 1; S Table 1
where it differs), rule `head`: CIFAR-10 88.11 % (87.10), CIFAR-100 44.66 % (39.74). Not
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
    "method.aux": "cnn4_d",
    "method.clip": 10.0,
    "method.energy_end": 0.98,
    "method.energy_start": 0.95,
    "method.target": "detached",
}
VARIANTS = {
    "spiral": {"method.aux": "spiral_mlp"},  # ours: two numbers are no image
    "ag_news": presets.AUX_OF_TEXTS,
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fedkd", arg, VARIANTS)

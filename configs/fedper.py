"""FedPer: a shared body under private heads.

    python main.py --config=configs/fedper.py                        # digits
    python main.py --config=configs/fedper.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fedper.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/fedper.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rule: `head`, a client's own network after its local training.
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
    "rounds": 60,
    "local.epochs": 1,
    "local.batch_size": 10,
    "optimizer.name": "sgd",
    "optimizer.learning_rate": 0.05,
    "optimizer.momentum": 0.0,
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fedper", arg, VARIANTS)

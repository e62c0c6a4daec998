"""FedNova: FedAvg of updates normalised by the local work behind them.

    python main.py --config=configs/fednova.py                        # digits
    python main.py --config=configs/fednova.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fednova.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/fednova.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rules: `received` is the global network, `head` a client's own.

The normalisation follows optimizer.momentum and optimizer.learning_rate; only SGD.
`code` has the numbers of the released README's command. The code then divides the
learning rate by 10 after half of the rounds and again after three quarters; here it is
constant. Its network is VGG-11.
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = presets.averaging()


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fednova", arg, VARIANTS)

"""FedAvg: the average of whole networks.

    python main.py --config=configs/fedavg.py                        # digits
    python main.py --config=configs/fedavg.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fedavg.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/fedavg.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rules: `received` is the global network, `head` a client's own.
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = presets.averaging()


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fedavg", arg, VARIANTS)

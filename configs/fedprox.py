"""FedProx: FedAvg with clients held near the global network.

    python main.py --config=configs/fedprox.py                        # digits
    python main.py --config=configs/fedprox.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fedprox.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/fedprox.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rules: `received` is the global network, `head` a client's own.

RefProtoFL does not state mu; --config.method.mu=1.0 is that of VHL's and FedUV's code.
`code` has the numbers of the released README's commands, which train logistic
regression with 10 clients a round (--config.participation.law=uniform); no stragglers.
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = presets.averaging()


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fedprox", arg, VARIANTS)

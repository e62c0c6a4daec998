"""FedUV: FedAvg whose clients imitate outputs and features of IID data.

    python main.py --config=configs/feduv.py                        # digits
    python main.py --config=configs/feduv.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/feduv.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/feduv.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rules: `received` is the global network, `head` a client's own.

Weights 2.5 and 0.5: N Table 6 and the released code, whose other settings are `code`.
It averages BatchNorm statistics as well: --config.method.statistics=averaged.
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = presets.averaging()


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("feduv", arg, VARIANTS)

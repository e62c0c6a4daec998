"""VHL: FedAvg with virtual images that all clients share.

    python main.py --config=configs/vhl.py                        # digits
    python main.py --config=configs/vhl.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/vhl.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/vhl.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rules: `received` is the global network, `head` a client's own.

Images only. RefProtoFL states no hyper-parameters; those of the released scripts are
the method's defaults, and `code` has their training with the values of images that come
from files (not their augmentation, not StyleGAN2's images but Gaussian noise, and the
test set is as for every method: --config.data.pool=False for the official one).
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = presets.averaging()


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("vhl", arg, VARIANTS)

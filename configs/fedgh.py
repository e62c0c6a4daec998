"""FedGH: a header that the server trains on the clients' prototypes.

    python main.py --config=configs/fedgh.py                      # digits
    python main.py --config=configs/fedgh.py:spiral
    python main.py --config=configs/fedgh.py:fashion_mnist        # data_dir of TFDS
    python main.py --config=configs/fedgh.py:cifar10,refprotofl   # RefProtoFL's setting
    python main.py --config=configs/fedgh.py:cifar100,code        # batches as HtFLlib

Server: --config.method.server_rate, server_epochs, server_batch.

RefProtoFL prints for CIFAR-10, alpha 0.5 (Table 2; which model and test set they are of
is not stated): 43.38 %. Not reached by us yet: no run of that length.
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = presets.IN_REFPROTOFL


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fedgh", arg, VARIANTS)

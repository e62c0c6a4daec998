"""FedGH: a header that the server trains on the clients' prototypes.

    python main.py --config=configs/fedgh.py                      # digits
    python main.py --config=configs/fedgh.py:spiral
    python main.py --config=configs/fedgh.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedgh.py:cifar10,refprotofl   # RefProtoFL's setting
    python main.py --config=configs/fedgh.py:cifar100,code        # HtFLlib's batches

Server training: --config.method.server_rate, server_epochs, server_batch.

RefProtoFL's published accuracy for CIFAR-10, alpha 0.5 (Table 2; the model and the test
set are not stated) is 43.38 %. No run of ours has this length yet.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.server_batch": 0,
    "method.server_epochs": 1,
    "method.server_rate": 0.01,
}
VARIANTS = {**presets.IN_REFPROTOFL, "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedgh", arg, VARIANTS)

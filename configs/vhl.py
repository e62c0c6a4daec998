"""VHL: FedAvg with virtual images that all clients share.

    python main.py --config=configs/vhl.py                        # digits
    python main.py --config=configs/vhl.py:fashion_mnist          # with data_dir
    python main.py --config=configs/vhl.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/vhl.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.

Only for images. RefProtoFL states no hyper-parameters; the defaults are those of the
released scripts. `code` has their training, with the values for images from files, but
without their augmentation and with Gaussian noise instead of StyleGAN2's images. The
test set is the same as for every method; for the official one, set
--config.data.pool=False.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "method.align": 1.0,
    "method.contrast": 0.1,
    "method.images": 200,
    "method.statistics": "local",
    "method.stored": False,
    "method.virtual": 1.0,
    "method.virtual_classes": 0,
    "method.virtual_seed": 0,
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("vhl", arg, VARIANTS)

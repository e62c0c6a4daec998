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
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("vhl", arg, VARIANTS)

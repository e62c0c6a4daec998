"""FedNH: a fixed head of class prototypes on averaged networks.

    python main.py --config=configs/fednh.py                        # digits
    python main.py --config=configs/fednh.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fednh.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/fednh.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rules: `received` is the global network, `head` a client's own.

The released code: gradients clipped at norm 10, rho 0.9, and as `code` the training of
its CIFAR scripts: Dirichlet 0.3 or 1.0 (--config.data.alpha), a CNN of its own, scale
1. `resnet` is its ResNet-18: GroupNorm of two groups (in the scripts for Tiny ImageNet
none within blocks, and weight decay 1e-3), scale 20.

N Table 3 has the 4-layer CNN and ResNet-18, d = 512, evaluation not stated. Its fork of
that code starts every network at scale 1: --config.model.group=resnet18, not `resnet`.
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
    "optimizer.clip_norm": 10.0,
    "method.rho": 0.9,
    "method.scale": 10.0,  # ours: 60 rounds are few for one that starts at 1
    "method.server_rate": 1.0,
    "method.statistics": "local",
}
VARIANTS = {
    **presets.averaging(presets.RUN_FIELDS["fednh"]),
    "resnet": {"model.group": "resnet18_gn", "method.scale": 20.0},
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fednh", arg, VARIANTS)

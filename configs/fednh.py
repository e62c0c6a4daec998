"""FedNH: a fixed head of class prototypes on averaged networks.

    python main.py --config=configs/fednh.py                        # digits
    python main.py --config=configs/fednh.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fednh.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fednh.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.

As in the released code, gradients are clipped at norm 10 and rho is 0.9. `code` has the
training of its CIFAR scripts, which use Dirichlet 0.3 or 1.0 (--config.data.alpha), a
special CNN and scale 1. `resnet` is its ResNet-18: GroupNorm with two groups and scale
20. (The scripts for Tiny ImageNet have no normalisation within blocks and weight decay
1e-3.)

ProtoNorm's Table 3 uses the 4-layer CNN and ResNet-18 with d = 512; its evaluation is
not stated. Its fork of the released code starts every network at scale 1, so use
--config.model.group=resnet18 instead of `resnet`.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "optimizer.clip_norm": 10.0,
    "method.rho": 0.9,
    "method.scale": 10.0,  # our choice: 60 rounds are too few for scale 1
    "method.server_rate": 1.0,
    "method.statistics": "local",
}
VARIANTS = {
    **presets.averaging(presets.RUN_FIELDS["fednh"]),
    "resnet": {"model.group": "resnet18_gn", "method.scale": 20.0},
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    return config.experiment("fednh", arg, VARIANTS)

"""FedNH: a fixed head of class prototypes on averaged networks.

    python main.py --config=configs/fednh.py                        # digits
    python main.py --config=configs/fednh.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fednh.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/fednh.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rules: `received` is the global network, `head` a client's own.

The released code: gradients clipped at norm 10, rho 0.9, scale 1 for its CNN and 20 for
its ResNet-18 (`resnet`). N Table 3 has both networks, d = 512, evaluation not stated.
"""

from jaxproto import config, presets

VARIANTS = {
    **presets.averaging("fednh"),
    "resnet": {"model.group": "resnet18", "method.scale": 20.0},
    "digits": {  # ours: 60 rounds are few for a scale that starts at 1
        **presets.averaging("fednh")["digits"],
        "method.scale": 10.0,
    },
}


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fednh", arg, VARIANTS)

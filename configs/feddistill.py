"""FedDistill: clients of different architectures share mean logits per class.

    python main.py --config=configs/feddistill.py                 # digits
    python main.py --config=configs/feddistill.py:spiral
    python main.py --config=configs/feddistill.py:fashion_mnist   # data_dir of TFDS
    python main.py --config=configs/feddistill.py:cifar10         # TinyProto's setting
    python main.py --config=configs/feddistill.py:cifar100,code   # batches as HtFLlib

The released code had three losses: --config.method.distance=mse until April 2024,
softmax_ce, the default, until November 2025, then raw_ce.

Printed for alpha 0.1, 20 clients, d = 500, 300 rounds, best round (T Table 1; S Table 1
where it differs), rule `head`: CIFAR-10 87.91 % (86.93), CIFAR-100 44.38 % (39.52). Not
reached by us yet: no run of that length.
"""

from jaxproto import config


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("feddistill", arg)

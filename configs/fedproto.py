"""FedProto on clients of different architectures.

    python main.py --config=configs/fedproto.py                  # digits
    python main.py --config=configs/fedproto.py:spiral
    python main.py --config=configs/fedproto.py:fashion_mnist    # data_dir of TFDS
    python main.py --config=configs/fedproto.py:cifar10
    python main.py --config=configs/fedproto.py:cifar10,code     # as HtFLlib's code
    python main.py --config=configs/fedproto.py:cifar10,paper    # lam 1, distance

Measured times and accuracies: README.
"""

from jaxproto import config


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fedproto", arg)

"""Local training, nothing shared: the lower bound of every comparison.

    python main.py --config=configs/local.py                     # digits
    python main.py --config=configs/local.py:spiral
    python main.py --config=configs/local.py:fashion_mnist       # data_dir of TFDS

Measured times and accuracies: README.
"""

from jaxproto import config


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set."""
    return config.experiment("local", arg)

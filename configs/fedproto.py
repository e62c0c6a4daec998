"""FedProto on clients of different architectures.

    python main.py --config=configs/fedproto.py                  # digits
    python main.py --config=configs/fedproto.py:spiral
    python main.py --config=configs/fedproto.py:fashion_mnist    # data_dir of TFDS
    python main.py --config=configs/fedproto.py:spiral,code      # as HtFLlib's code

Measured times and accuracies: README.
"""

from jaxproto import config

VARIANTS = {
    "paper": {},  # the defaults, as ProtoNorm describes it (Eq. 2, 4 to 7)
    "code": {  # spec 2.1, D2, D3, D13
        "method.lam": 10.0,
        "method.reg": "mse_mean",
        "method.collect": "train_pass",
        "local.order": "fixed",
        "local.short": "skip",
    },
}


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fedproto", arg, VARIANTS)

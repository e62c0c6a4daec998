"""FedMD: networks of any kind that agree on the scores of public examples.

    python main.py --config=configs/fedmd.py                      # digits
    python main.py --config=configs/fedmd.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedmd.py:cifar10

The public examples are 5 % of all examples, taken from the clients. To use others, set
--config.data.public_share=0 and --config.data.public_source=npz:PATH. In one epoch a
client learns the scores of public examples, and in one its own examples. Rule `head`
evaluates the client's own network after local training.
"""

from jaxproto import config
from jaxproto.config import presets

PUBLIC = {"data.public_share": 0.05, "data.public_classes": 1.0}  # our choice
DIGITS = {
    **presets.FIRST,
    "local.epochs": 2,
    **PUBLIC,
    "method.digest_share": 0.5,
}
VARIANTS = {
    **{name: {**PUBLIC, "local.epochs": 2} for name in presets.DATASETS},
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    return config.experiment("fedmd", arg, VARIANTS)

"""FedKD: private mentors and a shared mentee that travels as singular vectors.

    python main.py --config=configs/fedkd.py                      # digits
    python main.py --config=configs/fedkd.py:spiral
    python main.py --config=configs/fedkd.py:fashion_mnist        # data_dir of TFDS
    python main.py --config=configs/fedkd.py:cifar10              # TinyProto's setting
    python main.py --config=configs/fedkd.py:cifar100,code        # as HtFLlib's code

The energy rises over the configured number of rounds, from method.energy_start to
method.energy_end; 1 for both sends everything as it is.

Printed for alpha 0.1, 20 clients, d = 500, 300 rounds, best round (T Table 1; S Table 1
where it differs), rule `head`: CIFAR-10 88.11 % (87.10), CIFAR-100 44.66 % (39.74). Not
reached by us yet: no run of that length.
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = {
    "spiral": {"method.aux": "spiral_mlp"},  # ours: two numbers are no image
    "ag_news": presets.AUX_OF_TEXTS,
}


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fedkd", arg, VARIANTS)

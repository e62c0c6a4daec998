"""FML: private networks of different architectures and a shared auxiliary network.

    python main.py --config=configs/fml.py                        # digits
    python main.py --config=configs/fml.py:spiral
    python main.py --config=configs/fml.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fml.py:cifar10                # TinyProto's setting
    python main.py --config=configs/fml.py:cifar100,code          # as HtFLlib's code

Another auxiliary network: --config.method.aux=resnet8 (HtFLlib's code with Ht0).

Printed for alpha 0.1, 20 clients, d = 500, 300 rounds, best round (T Table 1; S Table 1
where it differs), rule `head`: CIFAR-10 87.60 % (86.59), CIFAR-100 43.73 % (37.83). Not
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
    return config.experiment("fml", arg, VARIANTS)

"""FML: private networks of different architectures and a shared auxiliary network.

    python main.py --config=configs/fml.py                        # digits
    python main.py --config=configs/fml.py:spiral
    python main.py --config=configs/fml.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fml.py:cifar10                # TinyProto's setting
    python main.py --config=configs/fml.py:cifar100,code          # HtFLlib's code

To use another auxiliary network, set --config.method.aux=resnet8 (HtFLlib's code with
Ht0).

Published accuracies for alpha 0.1, 20 clients, d = 500, best of 300 rounds, rule `head`
(no run of ours has this length yet):

    CIFAR-10    TinyProto, Table 1: 87.60 %     CPS + PPA + CPKD, Table 1: 86.59 %
    CIFAR-100   TinyProto, Table 1: 43.73 %     CPS + PPA + CPKD, Table 1: 37.83 %
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.alpha": 0.5,
    "method.aux": "cnn4_d",
    "method.beta": 0.5,
    "method.clip": 10.0,
    "method.target": "detached",
}
VARIANTS = {**presets.AUX, "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fml", arg, VARIANTS)

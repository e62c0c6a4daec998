"""FedDistill: clients of different architectures share mean logits per class.

    python main.py --config=configs/feddistill.py                 # digits
    python main.py --config=configs/feddistill.py:spiral
    python main.py --config=configs/feddistill.py:fashion_mnist   # with data_dir
    python main.py --config=configs/feddistill.py:cifar10         # TinyProto's setting
    python main.py --config=configs/feddistill.py:cifar100,code   # HtFLlib's batches

The released code has had three losses, selected by --config.method.distance: mse until
April 2024, softmax_ce (the default here) until November 2025, and raw_ce since.

Published accuracies for alpha 0.1, 20 clients, d = 500, best of 300 rounds, rule `head`
(no run of ours has this length yet):

    CIFAR-10    TinyProto, Table 1: 87.91 %     CPS + PPA + CPKD, Table 1: 86.93 %
    CIFAR-100   TinyProto, Table 1: 44.38 %     CPS + PPA + CPKD, Table 1: 39.52 %
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST, "method.distance": "softmax_ce", "method.lam": 1.0}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("feddistill", arg, VARIANTS)

"""FedKD: private mentor networks and a shared mentee, sent as singular vectors.

    python main.py --config=configs/fedkd.py                      # digits
    python main.py --config=configs/fedkd.py:spiral
    python main.py --config=configs/fedkd.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedkd.py:cifar10              # TinyProto's setting
    python main.py --config=configs/fedkd.py:cifar100,code        # HtFLlib's code

The energy increases over the configured number of rounds, from method.energy_start to
method.energy_end. With 1 for both, the mentee is sent uncompressed.

Published accuracies for alpha 0.1, 20 clients, d = 500, best of 300 rounds, rule `head`
(no run of ours has this length yet):

    CIFAR-10    TinyProto, Table 1: 88.11 %     CPS + PPA + CPKD, Table 1: 87.10 %
    CIFAR-100   TinyProto, Table 1: 44.66 %     CPS + PPA + CPKD, Table 1: 39.74 %
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.aux": "cnn4_d",
    "method.clip": 10.0,
    "method.energy_end": 0.98,
    "method.energy_start": 0.95,
    "method.target": "detached",
}
VARIANTS = {**presets.AUX, "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedkd", arg, VARIANTS)

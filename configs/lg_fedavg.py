"""LG-FedAvg: a shared head on private bodies of different architectures.

    python main.py --config=configs/lg_fedavg.py                  # digits
    python main.py --config=configs/lg_fedavg.py:spiral
    python main.py --config=configs/lg_fedavg.py:fashion_mnist    # with data_dir
    python main.py --config=configs/lg_fedavg.py:cifar10          # TinyProto's setting
    python main.py --config=configs/lg_fedavg.py:cifar100,code    # HtFLlib's batches

Published accuracies for alpha 0.1, 20 clients, d = 500, best of 300 rounds, rule
`received` (no run of ours has this length yet):

    CIFAR-10    TinyProto, Table 1: 87.81 %     CPS + PPA + CPKD, Table 1: 86.91 %
    CIFAR-100   TinyProto, Table 1: 45.00 %     CPS + PPA + CPKD, Table 1: 38.54 %
"""

from jaxproto import config
from jaxproto.config import presets

VARIANTS = {"digits": presets.FIRST}


def get_config(arg: str = "digits"):
    return config.experiment("lg_fedavg", arg, VARIANTS)

"""FedTGP on clients of different architectures.

    python main.py --config=configs/fedtgp.py                    # digits
    python main.py --config=configs/fedtgp.py:spiral
    python main.py --config=configs/fedtgp.py:fashion_mnist      # with data_dir
    python main.py --config=configs/fedtgp.py:cifar10            # TinyProto's setting
    python main.py --config=configs/fedtgp.py:cifar100,code      # the released code

Margin: --config.method.tau. Server training: --config.method.server_epochs,
server_rate, server_batch. CPS + PPA + CPKD uses a weaker pull: --config.method.lam=0.1.

Published accuracies for alpha 0.1, 20 clients, d = 500, best of 300 rounds (no run of
ours has this length yet):

    CIFAR-10    TinyProto, Table 1: 87.62 %     CPS + PPA + CPKD, Table 1: 86.32 %
    CIFAR-100   TinyProto, Table 1: 45.30 %     CPS + PPA + CPKD, Table 1: 36.92 %
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.collect": "after_training",
    "method.lam": 1.28,
    "method.on_server": "none",
    "method.reg": "mse_mean",
    "method.server_batch": 0,
    "method.server_epochs": 100,
    "method.server_rate": 0.01,
    "method.tau": 100.0,
    "method.upscale": 1.0,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedtgp", arg, VARIANTS)

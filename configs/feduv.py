"""FedUV: FedAvg whose clients imitate outputs and features of IID data.

    python main.py --config=configs/feduv.py                        # digits
    python main.py --config=configs/feduv.py:fashion_mnist          # with data_dir
    python main.py --config=configs/feduv.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/feduv.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.

The weights 2.5 and 0.5 are those of ProtoNorm's Table 6 and of the released code.
`code` has the other settings of the released code. It also averages BatchNorm
statistics: --config.method.statistics=averaged.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST_AVERAGED,
    "method.statistics": "local",
    "method.uniformity": 0.5,
    "method.variance": 2.5,
}
VARIANTS = {**presets.averaging(), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("feduv", arg, VARIANTS)

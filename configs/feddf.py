"""FedDF: FedAvg whose mean learns from all networks on public examples.

    python main.py --config=configs/feddf.py                      # digits
    python main.py --config=configs/feddf.py:fashion_mnist        # with data_dir
    python main.py --config=configs/feddf.py:cifar10

The public examples are 5 % of all, taken from the clients. Network and prediction
rules: as in `fedavg.py`.
"""

from jaxproto import config
from jaxproto.config import presets

PUBLIC = {"data.public_share": 0.05, "data.public_classes": 1.0}  # our choice
DIGITS = {
    **presets.FIRST_AVERAGED,
    **PUBLIC,
    "method.server_batch": 0,
    "method.server_epochs": 100,
    "method.server_rate": 0.001,
    "method.statistics": "local",
}
VARIANTS = {**presets.averaging(PUBLIC), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("feddf", arg, VARIANTS)

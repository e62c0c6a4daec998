"""FedAvg: the average of whole networks.

    python main.py --config=configs/fedavg.py                        # digits
    python main.py --config=configs/fedavg.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fedavg.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fedavg.py:cifar10,refprotofl100  # alpha 100
    python main.py --config=configs/fedavg.py:digits,centralised     # reference

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. Rule `received` evaluates the global network, `head` the
client's own network after local training. With `centralised`, one client trains on the
examples of all, and `received` evaluates its network on every client's test examples.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST_AVERAGED, "method.statistics": "local"}
CENTRALISED = {"data.centralised": True}  # an upper line for tables
VARIANTS = {**presets.averaging(), "digits": DIGITS, "centralised": CENTRALISED}


def get_config(arg: str = "digits"):
    return config.experiment("fedavg", arg, VARIANTS)

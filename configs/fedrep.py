"""FedRep: private heads, trained before the body that all clients share.

    python main.py --config=configs/fedrep.py                        # digits
    python main.py --config=configs/fedrep.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fedrep.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fedrep.py:cifar10,refprotofl100  # alpha 100

Network and prediction rule: as in `fedper.py`. One epoch trains the head, and one the
body. For ten epochs of the head, set --config.local.epochs=11 and
--config.method.head_share=0.909.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST_AVERAGED, "local.epochs": 2, "method.head_share": 0.5}
VARIANTS = {**presets.averaging({"local.epochs": 2}), "digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedrep", arg, VARIANTS)

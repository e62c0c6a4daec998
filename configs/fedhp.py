"""FedHP: learnt prototypes that stay near anchors spread on the sphere.

    python main.py --config=configs/fedhp.py                   # digits
    python main.py --config=configs/fedhp.py:spiral
    python main.py --config=configs/fedhp.py:fashion_mnist     # with data_dir
    python main.py --config=configs/fedhp.py:cifar10

Rule `head` evaluates the nearest prototype of the client after local training,
`received` that of the server.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {**presets.FIRST, "method.anchoring": 0.1}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedhp", arg, VARIANTS)

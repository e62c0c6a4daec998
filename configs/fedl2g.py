"""FedL2G: guiding vectors that are learnt so that following them helps clients.

    python main.py --config=configs/fedl2g.py                      # digits
    python main.py --config=configs/fedl2g.py:fashion_mnist        # with data_dir
    python main.py --config=configs/fedl2g.py:cifar10

Rule `head` evaluates the client's own network after local training. For 50 rounds of
warm-up without local training, set --config.method.warm_up=50. To guide logits, set
--config.method.guide=logits --config.method.server_rate=0.1.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "method.guide": "features",
    "method.quiz": 10,
    "method.server_rate": 100.0,
    "method.study": 10,
    "method.warm_up": 0,
}
VARIANTS = {"digits": DIGITS}


def get_config(arg: str = "digits"):
    return config.experiment("fedl2g", arg, VARIANTS)

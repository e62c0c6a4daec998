"""FAST: FedAvg under any participation, with snapshots.

    python main.py --config=configs/fast.py                        # digits
    python main.py --config=configs/fast.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fast.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fast.py:cifar10,refprotofl100  # alpha 100

All clients have the same network, by default the 4-layer CNN. To use another one, set
--config.model.group=resnet18. Rule `received` evaluates the global network, `head` the
client's own network after local training.

Between snapshots, a tenth of the clients participates, sampled by Beta(1, 10) over the
client ids. Other values of --config.participation.law are gamma, weibull, cyclic,
circular and random_count (the last two with --config.participation.fraction=1).
RefProtoFL states neither q nor the law; a tenth of its 10 clients is one. q is 0.5, as
in the commands of the released README. `code` has the released settings for CIFAR-10,
with one local epoch instead of 10 local steps.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {
    **presets.FIRST,
    "model.group": "cnn4_d",
    "participation.law": "beta",
    "participation.fraction": 0.1,
    "method.fraction": 0.1,
    "method.gamma": 0.7,
    "method.pace": "fixed",
    "method.q": 0.5,
    "method.statistics": "local",
}
VARIANTS = {
    **presets.averaging(presets.RUN_FIELDS["fast"]),
    "adaptive": {"method.pace": "adaptive", "method.q": 0.0},  # with gamma 0.7
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    """Returns the configuration of a data set and variants, joined by commas."""
    return config.experiment("fast", arg, VARIANTS)

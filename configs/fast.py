"""FAST: FedAvg under any participation, with snapshots.

    python main.py --config=configs/fast.py                        # digits
    python main.py --config=configs/fast.py:fashion_mnist          # with data_dir
    python main.py --config=configs/fast.py:cifar10,refprotofl     # alpha 0.5
    python main.py --config=configs/fast.py:cifar10,refprotofl100  # alpha 100

Network and prediction rules: as in `fedavg.py`.

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
    **presets.FIRST_AVERAGED,
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
    return config.experiment("fast", arg, VARIANTS)

"""FAST: FedAvg under any participation, with snapshots.

    python main.py --config=configs/fast.py                        # digits
    python main.py --config=configs/fast.py:fashion_mnist          # data_dir of TFDS
    python main.py --config=configs/fast.py:cifar10,refprotofl     # R 5.1, alpha 0.5
    python main.py --config=configs/fast.py:cifar10,refprotofl100  # and alpha 100

All clients have one network: --config.model.group=resnet18 for another than the 4-layer
CNN. Rules: `received` is the global network, `head` a client's own.

Between snapshots a tenth of the clients comes by Beta(1, 10) over the client ids;
others: --config.participation.law=gamma, weibull, cyclic, circular or random_count (the
last two with --config.participation.fraction=1). RefProtoFL states neither q nor a law;
with its 10 clients a tenth is one. q is 0.5, as in the commands of the released README.
`code` has the released numbers for CIFAR-10, but for its 10 local steps: here an epoch.
"""

from jaxproto import config
from jaxproto.config import presets

DIGITS = {  # 1,797 images of 8 x 8 pixels
    "data.clients": 20,
    "data.partition": "dirichlet",
    "data.alpha": 0.1,
    "data.train_share": 0.75,
    "model.group": "cnn4_d",
    "model.feat_dim": 64,
    "rounds": 60,
    "local.epochs": 1,
    "local.batch_size": 10,
    "optimizer.name": "sgd",
    "optimizer.learning_rate": 0.05,
    "optimizer.momentum": 0.0,
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
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("fast", arg, VARIANTS)

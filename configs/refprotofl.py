"""RefProtoFL: a shared adapter, private backbones, public reference examples.

    python main.py --config=configs/refprotofl.py                     # digits
    python main.py --config=configs/refprotofl.py:fashion_mnist       # with data_dir
    python main.py --config=configs/refprotofl.py:cifar10,refprotofl  # Section 5.1
    python main.py --config=configs/refprotofl.py:cifar10,refprotofl100  # alpha 100

    python main.py --config=configs/refprotofl.py:cifar10,refprotofl,frozen

`frozen` leaves all backbones at common random weights (Section 5.2.2).

Ablation (Table 1 of the paper):

    --config.method.anchors=none                            # w/o ERPA
    --config.method.budget=1.0                              # w/o APUD
    --config.method.anchors=none --config.method.budget=1.0   # w/o both

The public examples are 1 % of all examples, from half of the classes, taken from the
clients. To use other public examples, set --config.data.public_share=0 and
--config.data.public_source=npz:PATH. The published accuracies for CIFAR-10, alpha 0.5
(Table 1; the model and the test set are not stated) are 45.51 %, w/o ERPA 44.62, w/o
APUD 45.37, w/o both 44.54.
"""

from jaxproto import config
from jaxproto.config import presets

PUBLIC = {"data.public_share": 0.01}  # the paper states neither this nor the adapter
DIGITS = {
    **presets.FIRST,
    **PUBLIC,
    "method.adapter_dim": 32,  # our choice: features have 64 dimensions
    "method.anchors": "external",
    "method.backbone": "trained",
    "method.budget": 0.1,
    "method.lam": 1.28,
    "method.pull": "mse_mean",
}
FROZEN = {"method.backbone": "frozen", "model.init": "same"}  # R 5.2.2
VARIANTS = {
    "frozen": FROZEN,
    **dict.fromkeys(presets.DATASETS, PUBLIC),
    **presets.IN_REFPROTOFL,
    "digits": DIGITS,
}


def get_config(arg: str = "digits"):
    return config.experiment("refprotofl", arg, VARIANTS)

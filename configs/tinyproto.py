"""TinyProto: sparse, scaled prototypes on FedProto (-FP) or FedTGP (-FT).

    python main.py --config=configs/tinyproto.py                 # -FP on digits
    python main.py --config=configs/tinyproto.py:fashion_mnist   # data_dir of TFDS
    python main.py --config=configs/tinyproto.py:cifar10,ft      # -FT
    python main.py --config=configs/tinyproto.py:cifar100,ft
    python main.py --config=configs/tinyproto.py:cifar10,code    # as the released code

Ablation (Table 4, -FT on CIFAR-10; add them to `configs/tinyproto.py:cifar10,ft`):

    CPS  APS   accuracy
    no   no    87.62 %    --config.method.masks=none --config.method.scaling=none
    yes  no    87.68 %    --config.method.scaling=none
    no   yes   88.69 %    --config.method.masks=none
    yes  yes   89.06 %

Table 1: -FP 86.20 % on CIFAR-10 and 40.39 % on CIFAR-100, -FT 89.06 % and 47.85 %; not
reached by us yet: no run of that length. Figure 4: --config.method.s=N. Eq. 10 as it is
printed: --config.method.scaling=mean, with a larger mu. Blocks of coordinates as in the
released code: --config.method.masks=block. Another data set needs its own mu, about 0.9
over the examples of a class in all clients (spec H5); T 5.1 has those of gtsrb,
flowers102 and tiny_imagenet, which are presets too.
"""

from jaxproto import config, presets

PAPER = {  # T 5.1, H6
    "data.partition": "pfllib",
    "model.feat_dim": 500,
    "method.s": 50,
}
OURS = {  # mu of CIFAR-10, which has as many classes and examples
    "model.feat_dim": 500,
    "method.s": 50,
    "method.mu": presets.MU["cifar10"],
}
VARIANTS = {
    "fp": {"method.base": "fedproto"},
    "ft": {"method.base": "fedtgp"},
    "paper": {},  # the defaults: lam 1, free masks of exactly s coordinates
    "code": {  # spec 2.4 items 4 to 8, D2, D3, D6, D7, D13; its n_ij counts test data
        "method.lam": 10.0,
        "method.reg": "mse_mean",
        "method.collect": "train_pass",
        "method.masks": "block",
        "local.order": "fixed",
        "local.short": "skip",
    },
    "digits": {"method.mu": 6.7e-3, "method.s": 7},  # ours: 0.9 over 135 a class
    "spiral": {"method.mu": 2.4e-4, "method.s": 1},  # ours: 0.9 over 3750 a class
    "fashion_mnist": OURS,
    "mnist": OURS,
    **{name: {**PAPER, "method.mu": mu} for name, mu in presets.MU.items()},
}


def get_config(arg: str = "digits"):
    """The configuration; `arg` names a data set and variants, joined by commas."""
    return config.experiment("tinyproto", arg, VARIANTS)

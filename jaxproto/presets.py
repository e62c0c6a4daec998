"""What fits a data set, whatever the method: flat fields of a configuration."""

PAPERS = {  # N Section 5.1, images; hours on a CPU
    "data.min_size": 40,
    "model.group": "Ht0",
    "model.feat_dim": 512,
    "rounds": 300,
    "checkpoint_every": 5,
}
QUICK = {  # ours, for 28 x 28 pixels
    "data.clients": 10,
    "data.min_size": 40,
    "model.group": "light",
    "model.feat_dim": 512,
    "rounds": 20,
    "checkpoint_every": 5,
}
DATASETS = {
    "digits": {
        "data.name": "digits",
        "data.min_size": 20,
        "model.group": "digits",
        "model.feat_dim": 64,
        "rounds": 60,
        "local.batch_size": 10,
        "optimizer.learning_rate": 0.05,
        "eval_every": 2,
    },
    "spiral": {  # N Appendix A and Section 3.2
        "data.name": "spiral",
        "data.clients": 10,
        "data.min_size": 40,
        "model.group": "spiral_mlp",
        "model.feat_dim": 2,
        "rounds": 200,
        "eval_every": 10,
    },
    "mnist": {**QUICK, "data.name": "tfds:mnist"},
    "fashion_mnist": {**QUICK, "data.name": "tfds:fashion_mnist"},
    "cifar10": {**PAPERS, "data.name": "tfds:cifar10"},
    "cifar100": {**PAPERS, "data.name": "tfds:cifar100"},
    "flowers102": {  # spec 4.1
        **PAPERS,
        "data.name": "tfds:oxford_flowers102",
        "data.pixels": 64,
    },
    "gtsrb": {  # the 39,270 images of torchvision's split: spec 4.1, 5.2
        **PAPERS,
        "data.name": "tfds:gtsrb43/torchvision",
        "data.pixels": 32,
    },
    "tiny_imagenet": {  # 64 x 64 pixels as published; train and val: D28
        **PAPERS,
        "data.name": "tfds:tiny_imagenet",
    },
    "ag_news": {  # T 5.1; vocabulary: as PFLlib's newer script (spec 4.2)
        "data.name": "tfds:ag_news_subset",
        "data.partition": "pfllib",
        "data.vocab_size": 32_000,
        "data.max_len": 200,
        "model.group": "text",
        "model.feat_dim": 500,
        "rounds": 300,
        "checkpoint_every": 5,
    },
}
UPSCALE = {  # ProtoNorm's gamma, N Section 5.1
    "cifar10": 100.0,
    "cifar100": 200.0,
    "flowers102": 200.0,
    "tiny_imagenet": 400.0,
}
MU = {  # TinyProto's, T Section 5.1
    "cifar10": 1.5e-4,
    "cifar100": 1.5e-3,
    "tiny_imagenet": 1.5e-3,
    "gtsrb": 5e-4,
    "flowers102": 5e-3,
    "ag_news": 2.8e-5,  # not stated: 0.9 over a class's 31,900 examples (spec H5)
}
TINYPROTO = {"data.partition": "pfllib", "model.feat_dim": 500}  # T 5.1, H6
IN_TINYPROTO = dict.fromkeys(  # the images of its tables
    ("cifar10", "cifar100", "gtsrb", "flowers102", "tiny_imagenet"), TINYPROTO
)

REFPROTOFL = {  # protocol of RefProtoFL's comparison, its Section 5.1
    "data.clients": 10,
    "data.alpha": 0.5,
    "data.pool": False,  # clients are tested on the whole official test part
    "model.group": "resnet18",
    "model.feat_dim": 512,  # not stated: ResNet-18's own
    "rounds": 50,
    "eval_every": 1,
    "local.epochs": 1,
    "local.batch_size": 64,
    "optimizer.learning_rate": 0.01,
    "optimizer.momentum": 0.9,
    "optimizer.weight_decay": 1e-4,
}
AROUND = {  # fields outside a method that go with it
    "fast": {"participation.law": "beta", "participation.fraction": 0.1},  # D23
    "fednh": {"optimizer.clip_norm": 10.0},  # its released code
}
IN_REFPROTOFL = {  # method -> its fields in that protocol
    # Not stated. The released code's (D2): lam 1 on l2_of_means ends at chance there
    "fedproto": {"method.reg": "mse_mean", "method.lam": 10.0},
    "fedgh": {"method.server_batch": REFPROTOFL["local.batch_size"]},  # spec 2.14
}
_PAPER = {
    "method.lam": 1.0,
    "method.reg": "l2_of_means",
    "method.collect": "after_training",
}
_CODE = {  # spec D2, D3, D13
    "method.lam": 10.0,
    "method.reg": "mse_mean",
    "method.collect": "before_training",
    "local.order": "fixed",
    "local.short": "skip",
}
_WHILE_TRAINING = {**_CODE, "method.collect": "train_pass"}
READINGS = {  # method -> as its paper states it, as its released code does
    "fedproto": {"paper": _PAPER, "code": _WHILE_TRAINING},  # spec 2.1
    "protonorm": {"paper": _PAPER, "code": _CODE},  # spec 2.3 items 5 to 8
    "fedtgp": {"paper": _PAPER, "code": _CODE},  # spec 2.2 items 5 to 8
    "tinyproto": {  # spec 2.4 items 4 to 8
        "paper": _PAPER,
        "code": {**_WHILE_TRAINING, "method.masks": "block"},
    },
}
AUX_OF_TEXTS = {"method.aux": "fasttext"}  # ours: not stated, spec 5.2
ONE_OF = {  # group -> one network of it, for methods that average whole networks
    "digits": "cnn4_d",
    "light": "cnn4",
    "Ht0": "cnn4",
    "text": "fasttext",
}


def averaging(method: str = "") -> dict[str, dict]:
    """Variants of a method that averages whole networks.

    Every data set with one network instead of a group, and `refprotofl` and
    `refprotofl100` for that paper's protocol with alpha 0.5 and 100.

    Args:
      method: a name of `AROUND`, whose fields every data set gets.
    """
    more = AROUND.get(method, {})
    groups = {name: fields["model.group"] for name, fields in DATASETS.items()}
    each = {k: {"model.group": ONE_OF.get(g, g), **more} for k, g in groups.items()}
    less_skewed = {**REFPROTOFL, "data.alpha": 100.0}
    return {**each, "refprotofl": REFPROTOFL, "refprotofl100": less_skewed}

"""Variants `paper` and `code` of each method: its paper, and its released code.

They are flat fields of a configuration, applied after all other presets. A value may be
a function of the configuration so far.

- `paper`: as the paper is written. The pull is a distance between class means, under
  which features of different classes fall together (docs/decisions.md#pull).
- `code`: as the authors' released program, with its artefacts: fixed batches without
  the short last one, prototypes of the model before training, its place of dropout.

Defaults are neither: in every method the pull and its weight are the code's
(`losses.PULL`), prototypes are fresh and batches are shuffled.

Comments name the sources: N is ProtoNorm, T TinyProto, S CPS + PPA + CPKD and R
RefProtoFL.
"""

DISTANCE = {"method.reg": "l2_of_means", "method.lam": 1.0}  # N Eq. 5, T 5.1, N 5.1
SQUARED = {"method.reg": "mse_mean", "method.lam": 10.0}


def _released_network(config) -> str:
    """Returns the group with dropout and features placed as in the released code."""
    group = config.model.group
    return {"Ht0": "Ht0_code", "text": "text_code"}.get(group, group)


def _mu_of_training_data(config) -> float:
    """Scales mu to counts of training data, where the code counts test data too."""
    return config.method.mu / config.data.train_share


def _released_gamma(config) -> float:
    """Returns 80 for CIFAR-10, the only data set that the release documents."""
    name = config.data.name
    if name.startswith("tfds:cifar10") and not name.startswith("tfds:cifar100"):
        return 80.0
    return config.method.upscale


def _released_collect(config) -> str:
    """Returns when prototypes are collected: FedTGP's clients, before training."""
    return "before_training" if config.method.base == "fedtgp" else "train_pass"


RELEASED_CODE = {  # of HtFLlib and the programs made from it
    "data.partition": "pfllib",
    "local.order": "fixed",
    "local.short": "skip",
    "model.group": _released_network,
}
HTFLLIB = {**RELEASED_CODE, "model.init": "same"}  # T, N: every client draws its own
ATTACHED = {"method.target": "attached"}
READINGS: dict[str, dict[str, dict]] = {
    "local": {"paper": {}, "code": HTFLLIB},
    "fedproto": {
        "paper": DISTANCE,
        "code": {**HTFLLIB, **SQUARED, "method.collect": "train_pass"},
    },
    "fedtgp": {
        "paper": DISTANCE,
        "code": {**HTFLLIB, **SQUARED, "method.collect": "before_training"},
    },
    "protonorm": {
        "paper": {**DISTANCE, "method.initial": "random"},  # N Algorithm 2, line 1
        "code": {
            **RELEASED_CODE,
            **SQUARED,
            "method.collect": "before_training",
            "method.upscale": _released_gamma,
        },
    },
    "tinyproto": {
        "paper": DISTANCE,
        "code": {
            **RELEASED_CODE,
            **SQUARED,
            "method.collect": _released_collect,
            "method.masks": "block",
            "method.mu": _mu_of_training_data,
        },
    },
    "cps_ppa_cpkd": {  # its code is not public: `code` is TinyProto's
        "paper": {
            "method.reg": "l2_of_means",
            "method.lam": 0.1,  # S 5.1
            "method.compare": "sparse",  # S 4.3
        },
        "code": {
            **RELEASED_CODE,
            **SQUARED,
            "method.collect": _released_collect,
            "method.masks": "block",
        },
    },
    "refprotofl": {  # no code is released
        "paper": {"method.pull": "sq_l2_mean", "method.lam": 0.1},  # R Eq. 17
    },
    "lg_fedavg": {"paper": {}, "code": HTFLLIB},
    "feddistill": {"paper": {}, "code": HTFLLIB},
    "fedgh": {"paper": {}, "code": HTFLLIB},
    "fml": {"paper": {}, "code": {**HTFLLIB, **ATTACHED}},
    "fedkd": {"paper": {}, "code": {**HTFLLIB, **ATTACHED}},
    "fednova": {  # https://github.com/JYWa/FedNova, the README's command
        "code": {
            "data.clients": 16,
            "data.alpha": 0.1,
            "rounds": 100,
            "local.epochs": 2,
            "local.batch_size": 32,
            "optimizer.learning_rate": 0.02,
            "optimizer.momentum": 0.9,
            "optimizer.weight_decay": 1e-4,
        },
    },
    "fedprox": {  # https://github.com/litian96/FedProx, the README's commands
        "code": {
            "method.mu": 1.0,
            "rounds": 200,
            "local.epochs": 20,
            "local.batch_size": 10,
            "optimizer.learning_rate": 0.01,
        },
    },
    "fednh": {  # https://github.com/Yutong-Dai/FedNH, its CIFAR scripts
        "code": {
            "data.clients": 100,
            "data.partition": "dirichlet",
            "data.min_size": 10,
            "participation.law": "uniform",
            "participation.fraction": 0.1,
            "rounds": 200,
            "local.epochs": 5,
            "local.batch_size": 64,
            "optimizer.learning_rate": 0.01,
            "optimizer.momentum": 0.9,
            "optimizer.weight_decay": 1e-5,
            "optimizer.schedule": "exponential",
            "optimizer.decay": 0.99,
        },
    },
    "feduv": {  # https://github.com/sonhamin/FedUV
        "code": {
            "method.statistics": "averaged",
            "data.clients": 10,
            "rounds": 100,  # over which the cosine goes
            "local.epochs": 10,
            "local.batch_size": 128,
            "optimizer.learning_rate": 0.01,
            "optimizer.momentum": 0.9,
            "optimizer.weight_decay": 1e-5,
            "optimizer.schedule": "cosine",
        },
    },
    "vhl": {  # https://github.com/wizard1203/VHL
        "code": {
            "method.stored": True,
            "method.statistics": "averaged",
            "data.clients": 10,
            "participation.law": "uniform",
            "participation.fraction": 0.5,
            "rounds": 1000,
            "local.batch_size": 128,
            "local.optimizer_state": "keep",
            "optimizer.learning_rate": 0.01,
            "optimizer.momentum": 0.9,
            "optimizer.weight_decay": 1e-4,
            "optimizer.schedule": "exponential",
            "optimizer.decay": 0.992,
        },
    },
    "fast": {  # https://github.com/RogerRogerUSC/FAST, CIFAR-10
        "code": {
            "data.clients": 100,
            "rounds": 1000,
            "local.batch_size": 128,
            "local.optimizer_state": "keep",
            "optimizer.learning_rate": 0.01,
            "optimizer.momentum": 0.9,
        },
    },
}


def in_table(method: str, reading: str) -> dict:
    """Returns a reading of a method as one row of a table of several methods.

    All rows have one protocol: `code` has the program of N and T, in which every client
    draws its own weights. A method adds its own fields to it, not its authors' rounds,
    clients and optimiser, nor HtFLlib's equal weights.
    """
    fields = READINGS.get(method, {}).get(reading, {})
    own = {k: v for k, v in fields.items() if k.startswith("method.")}
    return own | (RELEASED_CODE if reading == "code" else {})

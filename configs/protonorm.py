"""ProtoNorm."""

from jaxproto import config

VARIANTS = {
    "spiral": {"method.upscale": 10.0},
    "code": {
        "method.lam": 10.0,
        "method.reg": "mse_mean",
        "method.collect": "before_training",
        "local.order": "fixed",
        "local.short": "skip",
    },
    "paper": {},
}


def get_config(arg: str = "digits"):
    return config.experiment("protonorm", arg, VARIANTS)

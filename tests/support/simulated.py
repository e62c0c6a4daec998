"""Small federations in one process."""

from rich.console import Console

import jaxproto
from jaxproto import config
from support.fields import changed

QUIET = Console(quiet=True)


def small(method="fedavg", rounds=2, **changes):
    """Three clients of one perceptron; `changes` are flat fields, __ for a dot."""
    fields = {"rounds": rounds, "data.clients": 3, "eval_every": 1}
    fields |= {"model.group": "mlp", "model.feat_dim": 8, "local.batch_size": 100}
    return changed(config.experiment(method, "digits"), fields, **changes)


def simulated(c, path):
    return jaxproto.run(c, path, QUIET)

"""Every method with the options that fit the toy problem of `toys.py`."""

import dataclasses
import functools

import numpy as np
import pytest

from jaxproto.core.method import Method
from jaxproto.core.types import Spec
from jaxproto.methods import METHODS
from jaxproto.methods.fednova import LocalDescent
from support import toys

every_method = pytest.mark.parametrize("name", METHODS)
PUBLIC = np.random.default_rng(1).normal(size=(7, toys.INPUT)).astype(np.float32)
TOYS = {  # what fits 60 examples of 5 classes, where a default fits the papers' data
    "tinyproto": {"s": 6, "mu": 0.04, "lam": 5.0},  # 5 / 60 and 10 grow without end
    "cps_ppa_cpkd": {"s": 6, "num_examples": 60, "lam": 5.0},
    "fml": {"aux": toys.net(12)},
    "fedkd": {"aux": toys.net(12), "rounds": 3},
    "fedgh": {"server_rate": 0.5, "server_epochs": 5},
    "fedgen": {"noise": 4, "hidden": 8, "server_epochs": 5},
    "fednh": {"scale": 10.0},
    "fedproc": {"rounds": 3},
    "scaffold": {"sgd": LocalDescent(0.05, 0.0)},  # that of the toys
    "fpl": {"num_clients": 6},
    "fedpcl": {"num_clients": 6},
    "fedpac": {"num_clients": 6},
    "heterofl": {"num_clients": 6, "levels": 2},
    "fedmd": {"public": PUBLIC},
    "feddf": {"public": PUBLIC, "server_epochs": 5},
    "fedmrl": {"aux": toys.net(12, Spec(5, 4)), "aux_dim": 4},
    "fedl2g": {"quiz": 2, "study": 4},
    "fast": {"q": 0.0},  # whoever the law of a test brings
}
SIZED = {  # for which sizes do not depend on values
    "fedkd": {"energy_start": 1.0, "energy_end": 1.0},
    "fpl": {"num_clients": 2},  # one cluster of each class
}
# where classes are those seen in whole batches: long enough to see all
SEEN = {"feddistill": dataclasses.replace(toys.LOCAL, epochs=6)}
ROUNDS = {"fedhp": 20}  # of slow learning on the toy problem; 10 for the others
FORMULA = {"fedkd": "fml"}  # of the sized one, where the own has a made-up factor
BEYOND = {  # numbers per client that are sent but not in the formula, besides those
    # that stand alone, as n_i does
    "lg_fedavg": 2 * toys.SPEC.num_classes,  # the bias in both directions
    "refprotofl": -1,  # its formula has n_i
    "fednh": 3 * 8 + 5 * 8 - 2 * (8 * 5 + 5),  # prototypes; not the head
}
COUNTED = {  # direction and field of the counts of examples that the server needs
    "refprotofl": ("up first", "own.count"),
    "fednh": ("up", "protos.count"),
    "fedhp": ("up", "count"),
    "fedpac": ("up", "protos.count"),
}


@functools.cache
def make(name, **more) -> Method:
    return toys.method(METHODS[name], **TOYS.get(name, {}) | more)


def sized(name) -> Method:
    """As `make`, but of messages whose sizes do not depend on values."""
    return make(name, **SIZED.get(name, {}))

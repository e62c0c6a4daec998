"""Runs of the methods in FedAvg's frame, which average whole networks, made once."""

import functools
import inspect

import jax
import numpy as np

from jaxproto.client import LocalTraining
from jaxproto.methods import METHODS
from support import toys

SPEC = toys.SPEC
FRAME = tuple(  # the methods in FedAvg's frame
    n for n, f in METHODS.items() if "statistics" in inspect.signature(f).parameters
)
# one step on all examples per epoch, for clients of any size
ALIKE = LocalTraining(
    toys.LOCAL.opt, 3, 19, steps_per_epoch=lambda size, _: size // size
)


@functools.cache
def run(method, rounds=2, **options):
    return toys.run(method, rounds=rounds, **options)


@functools.cache
def make(name, **fields):
    return METHODS[name](SPEC, **fields)


@functools.cache
def begun(method):
    start, _ = toys.starter(method, toys.HOM, toys.LOCAL)(jax.random.key(3), COUNTS)
    return jax.device_get(start)


COUNTS = [toys.counts(*toys.pool_and_rows(), range(6))]
SIZES_K = 5 + 2 * np.arange(6)  # n_i of the toys
BASE = make("fedavg")
SGD = {"name": "sgd", "learning_rate": 0.1, "momentum": 0.9, "schedule": "constant"}


def by_size(*each):
    return np.average(np.stack(each), axis=0, weights=SIZES_K)


def drawn(tree, seed=0, lead=(2,)):
    """Made-up arrays in the shapes of a tree, with more axes before."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: np.float32(rng.normal(size=(*lead, *a.shape))), tree)

"""Runs of the methods in FedAvg's frame, which average whole networks, made once."""

import functools
import inspect

import jax
import numpy as np

from jaxproto.methods import METHODS
from jaxproto.methods.fedavg import averaged_statistics
from support import toys

SPEC = toys.SPEC
FRAME = tuple(  # the methods in FedAvg's frame
    n for n, f in METHODS.items() if "statistics" in inspect.signature(f).parameters
)


@functools.cache
def run(method, rounds=2, **options):
    return toys.run(method, rounds=rounds, **options)


@functools.cache
def make(name, **fields):
    return METHODS[name](SPEC, **fields)


TOYS = {"fast": {"q": 0.0}, "fednh": {"scale": 10.0}}


def averaging(name):
    return make(name, **TOYS.get(name, {}), statistics=averaged_statistics)


def begun(method):
    return run(method, 0).server


COUNTS = [toys.counts(*toys.pool_and_rows(), range(6))]
SIZES_K = 5 + 2 * np.arange(6)  # n_i of the toys
BASE = make("fedavg")


def drawn(tree, seed=0, lead=(2,)):
    """Made-up arrays in the shapes of a tree, with more axes before."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda a: np.float32(rng.normal(size=(*lead, *a.shape))), tree)

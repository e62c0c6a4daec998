"""Lower bound of the memory of an experiment, by shapes, before arrays are made.

It counts the states of clients and server, the examples and one batch. The additional
memory of compiled programs is known when they are compiled
(`training/compiler.py`).
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Spec, Tree
from jaxproto.data import host_memory
from jaxproto.data.dataset import Dataset
from jaxproto.experiment import statelessness
from jaxproto.round.client import LocalTraining
from jaxproto.round.federation import Cohort


def tree_bytes(tree: Tree) -> int:
    """Returns the bytes of the arrays of a tree of shapes; keys count nothing."""
    leaves = [a for a in jax.tree.leaves(tree) if isinstance(a.dtype, np.dtype)]
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in leaves)


def check_counts(clients: int, classes: int):
    """Raises UserError if examples cannot be counted by client and class."""
    what = f"counts of {clients} clients by {classes} classes (num_classes)"
    advice = "choose fewer clients, or save the right num_classes"
    size = 2 * 8 * clients * classes  # for training and test
    host_memory.check_memory(what, size, advice)


def check_networks(cohorts: Sequence[Cohort], spec: Spec):
    """Raises UserError if the networks, one per cohort, do not fit into memory.

    It is called before the method is built, which may make tables of that width.
    """
    key, size = jax.eval_shape(make_key, 0), 0
    classes = spec.num_classes
    what = f"networks with model.feat_dim={spec.feat_dim} for {classes} classes"
    check = partial(host_memory.check_memory, what, way="choose smaller or fewer ones")
    for cohort in cohorts:
        # the head first, without JAX, which counts in 32 bits
        check(size + 4 * spec.feat_dim * classes)
        size += tree_bytes(jax.eval_shape(cohort.net.init, key))
        check(size)


def check_experiment_memory(exp: Any):
    """Raises UserError if states, examples and a batch do not fit into memory.

    Args:
      exp: an `Experiment`.
    """
    x, batch_size = exp.dataset.x, exp.local.batch_size
    outputs = 2 * (exp.spec.feat_dim + exp.spec.num_classes)  # with their gradients
    batch = batch_size * 4 * (math.prod(x.shape[1:]) + outputs)  # in float32
    what = f"batches of local.batch_size={batch_size}"
    host_memory.check_memory(what, batch, "choose a smaller one")
    init = partial(exp.method.init_server, exp.cohorts[0].net)
    states = tree_bytes(jax.eval_shape(init, jax.eval_shape(make_key, 0)))
    states += client_state_bytes(exp.resident, exp.method, exp.local, exp.dataset)
    advice = "choose fewer clients, a smaller network or a smaller field of the method"
    host_memory.check_memory("the states of clients and server", states, advice)
    what, size = "states, examples and a batch", states + batch + x.nbytes
    host_memory.check_memory(what, size, advice)


def client_state_bytes(
    cohorts: Sequence[Cohort], method: Method, local: LocalTraining, dataset: Dataset
) -> int:
    """Returns the bytes of all clients' states between rounds."""
    total = 0
    for cohort in cohorts:
        client = statelessness.client_state_shapes(method, cohort.net, local, dataset)
        total += tree_bytes(cohort.kept_state.keep(client)) * len(cohort.ids)
    return total

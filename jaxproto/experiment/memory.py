"""What an experiment needs at the least, by shapes alone, before anything is made.

A lower bound: the clients' and the server's state, the examples and one batch. What
compiled programs need besides is known when they are compiled
(`training/device_memory.py`).
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import client
from jaxproto.data import host_memory
from jaxproto.experiment.cohorts import OFF_DEVICE
from jaxproto.federation import Cohort
from jaxproto.method import Method
from jaxproto.types import Spec, Tree


def tree_bytes(tree: Tree) -> int:
    """Bytes of the arrays of a tree of shapes; keys count nothing."""
    leaves = [a for a in jax.tree.leaves(tree) if isinstance(a.dtype, np.dtype)]
    return sum(math.prod(a.shape) * a.dtype.itemsize for a in leaves)


def check_counts(clients: int, classes: int):
    """Raises UserError if examples cannot be counted by client and class."""
    what = f"counts of {clients} clients by {classes} classes (num_classes)"
    way = "choose fewer clients, or save the right num_classes"
    host_memory.check_memory(
        what, 2 * 8 * clients * classes, way
    )  # to train and to test on


def check_networks(cohorts: Sequence[Cohort], spec: Spec):
    """Raises UserError if a network of each cohort cannot be held.

    Asked first, because a method may make tables of that width when it is built.
    """
    key, needed = jax.eval_shape(jax.random.key, 0), 0
    for cohort in cohorts:
        # a head, before libraries are asked that count in 32 bits
        least = 4 * spec.feat_dim * spec.num_classes
        _tell(needed + least, spec)
        needed += tree_bytes(jax.eval_shape(cohort.net.init, key))
        _tell(needed, spec)


def _tell(needed: int, spec: Spec):
    what = (
        f"networks with model.feat_dim={spec.feat_dim} for {spec.num_classes} classes"
    )
    host_memory.check_memory(what, needed, "choose smaller or fewer ones")


def check_experiment_memory(exp: Any):
    """Raises UserError if states, examples and a batch together cannot be held.

    Args:
      exp: an `Experiment`.
    """
    x, batch = exp.dataset.x, exp.local.batch_size
    outputs = 2 * (exp.spec.feat_dim + exp.spec.num_classes)  # with their gradients
    each = 4 * (math.prod(x.shape[1:]) + outputs)  # in float32
    one_batch = batch * each
    host_memory.check_memory(
        f"batches of local.batch_size={batch}", one_batch, "choose a smaller one"
    )
    states = server_state_bytes(exp)
    if exp.store not in OFF_DEVICE:
        states += client_state_bytes(exp.cohorts, exp.method, exp.local, exp.spec)
    way = "choose fewer clients, a smaller network or a smaller field of the method"
    host_memory.check_memory("the states of clients and server", states, way)
    host_memory.check_memory(
        "states, examples and a batch", states + one_batch + x.nbytes, way
    )


def server_state_bytes(exp: Any) -> int:
    """Bytes of the server's state."""
    key = jax.eval_shape(jax.random.key, 0)
    start = partial(exp.method.init_server, exp.cohorts[0].net)
    return tree_bytes(jax.eval_shape(start, key))


def client_state_bytes(
    cohorts: Sequence[Cohort], method: Method, local: client.LocalTraining, spec: Spec
) -> int:
    """Bytes of all clients between rounds."""
    key = jax.eval_shape(jax.random.key, 0)
    count_C = jax.ShapeDtypeStruct((spec.num_classes,), jnp.float32)
    number, total = jax.ShapeDtypeStruct((), jnp.int32), 0
    for cohort in cohorts:
        start = partial(client.init_client, method, cohort.net, local)
        one = cohort.persistence.keep(jax.eval_shape(start, key, number, count_C))
        total += tree_bytes(one) * len(cohort.ids)
    return total

"""Checks by shapes that methods, networks and data fit; nothing is computed."""

import itertools
from collections.abc import Sequence
from functools import partial

import jax
import jax.numpy as jnp

from jaxproto.errors import UserError
from jaxproto.federation import Cohort
from jaxproto.method import Method
from jaxproto.metrics import Metric, besides_accuracy
from jaxproto.metrics.shape_check import check_metric
from jaxproto.types import Client, Net, Spec, Tree
from jaxproto.wire import for_client


def check_cohorts(
    method: Method,
    cohorts: Sequence[Cohort],
    spec: Spec,
    x,
    metrics: tuple[Metric, ...] = (),
):
    """Raises UserError before training if method and cohorts do not fit.

    Args:
      x: shape of one batch of inputs, as a ShapeDtypeStruct.
    """
    _check_architectures(method, cohorts)
    method.check_input(x)
    for cohort in cohorts:
        _check_features(cohort, spec, x)
    key = jax.eval_shape(lambda: jax.random.key(0))
    server = jax.eval_shape(partial(method.init_server, cohorts[0].net), key)
    down = jax.eval_shape(lambda a: for_client(method.broadcast(a), 0), server)
    for cohort in cohorts:
        params = jax.eval_shape(partial(method.init_client, cohort.net), key)[0]
        _check_received(cohort, params, jax.eval_shape(method.receive, params, down))
        if more := besides_accuracy(metrics):
            scores = jax.eval_shape(
                partial(_scores, method, cohort.net, spec), key, x, down
            )
            columns = {array.shape[-1] for array in scores.values()}
            for metric, number in itertools.product(more, columns):
                check_metric(metric, number)


def _check_architectures(method: Method, cohorts: Sequence[Cohort]):
    if method.homogeneous and len(cohorts) > 1:
        names = [cohort.name for cohort in cohorts]
        raise UserError(
            f"{method.name} averages networks, so all clients need one architecture, "
            f"but there are {len(names)}: {', '.join(names)}. Choose one, such as "
            f"model.group={names[0]}, or a method for several architectures."
        )


def _check_features(cohort: Cohort, spec: Spec, x):
    params, norm = jax.eval_shape(cohort.net.init, jax.eval_shape(jax.random.key, 0))
    out = jax.eval_shape(lambda *a: cohort.net.apply(*a, False), params, norm, x)
    for what, dim, required in [
        ("feature dimension", out.feat.shape[-1], spec.feat_dim),
        ("number of classes", out.logits.shape[-1], spec.num_classes),
    ]:
        if dim != required:
            raise UserError(
                f"network {cohort.name!r} has {what} {dim}, but the federation has "
                f"{required}: prototypes of all cohorts must have one shape. Build it "
                f"with {what} {required} or leave it out of the group."
            )


def _check_received(cohort: Cohort, before: Tree, after: Tree):
    trees = [dict(jax.tree_util.tree_leaves_with_path(t)) for t in (before, after)]
    for path in {**trees[0], **trees[1]}:
        a, b = (getattr(tree.get(path), "shape", "nothing") for tree in trees)
        if a != b:
            raise UserError(
                f"cohort {cohort.name!r}: the broadcast would turn "
                f"{jax.tree_util.keystr(path)} from {a} into {b}. A method that "
                "shares this part needs clients of one architecture."
            )


def _scores(method: Method, net: Net, spec: Spec, key, x, down: Tree):
    """Returns the scores of every rule for a new client."""
    params, norm, memory = method.init_client(net, key)
    count_C, zero = jnp.zeros(spec.num_classes), jnp.zeros((), jnp.int32)
    client = Client(params, norm, (), memory, count_C, zero, zero)
    return method.predict(net, client, x, down)

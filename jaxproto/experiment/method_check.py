"""Check of a method by shapes: every function, in the order of a round.

Nothing is computed. A message names the method, the function, what was expected and
found, and the line of the author's file.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

import jax
import jax.numpy as jnp

from jaxproto import wire
from jaxproto.core import batches
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Data, LossAux, Net, Spec, Tree, describe, kind_of
from jaxproto.data.dataset import Dataset
from jaxproto.errors import (
    ExplainedError,
    UserError,
    choose_from,
    describe_failure,
    place_of,
    shorten,
)
from jaxproto.experiment import statelessness
from jaxproto.experiment.slot_trace import SlotTracer, check_repeatable, slot_error
from jaxproto.experiment.traced import Floats
from jaxproto.methods import METHODS
from jaxproto.round.client import LocalTraining, trained_part

EXAMPLES, CLIENTS = 3, 2  # in the shapes of the check
KINDS = {bool: "True or False", str: "a text"}  # of fields that are no functions


def make_method(name: str, spec: Spec, arguments: Mapping) -> Method:
    """Builds a method by the factory of its registered name.

    Raises:
      UserError: The factory fails, or returns something else.
    """
    factory = METHODS[name]
    place = f"({place_of(factory)})."
    after_spec = list(inspect.signature(factory).parameters.values())[1:]
    for p in after_spec:
        variadic = p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if p.default is p.empty and p.name not in arguments and not variadic:
            raise UserError(
                f"method {name!r}: argument {p.name!r} of its factory has no default; "
                f"give it one, which becomes that of the field method.{p.name} {place}"
            )
    try:
        method = factory(spec, **arguments)
    except (UserError, jax.errors.ConcretizationTypeError):
        raise
    except Exception as e:  # an author's factory may raise anything
        _check_field_name(name, f"{e}", place)
        why = describe_failure(e)
        raise UserError(f"method {name!r}: its factory fails: {why}.") from e
    if not isinstance(method, Method):
        kind = type(method).__name__
        raise UserError(
            f"method {name!r}: its factory returns {kind}; it must return a "
            f"jaxproto.Method {place}"
        )
    _check_field_types(name, method, place)
    return method


def _check_field_name(name: str, failure: str, place: str):
    """Raises UserError if a factory fails as a method has no field of some name."""
    found = re.search(r"Method\.__init__\(\) got an unexpected .* '(\w+)'", failure)
    if found:
        fields = [field.name for field in dataclasses.fields(Method)]
        try:
            choose_from("field of a Method", found[1], fields)
        except UserError as e:
            raise UserError(f"method {name!r}: {e} {place}") from None


def _check_field_types(name: str, method: Method, place: str):
    """Raises UserError for a field of a method that has a value of another type."""
    for field in dataclasses.fields(Method):
        value, hint = getattr(method, field.name), field.type
        kind, absent = "a function", value is None and field.default is None
        right = callable(value) or absent or hint is Any
        if isinstance(hint, type) and hint in KINDS:
            right, kind = isinstance(value, hint), KINDS[hint]
        if not right:
            raise UserError(
                f"method {name!r}: its {field.name} is {shorten(value)}; it must be "
                f"{kind} {place}"
            )


def check_own_method(
    make: Callable[[Floats], Method],
    floats: Floats,
    net: Net,
    local: LocalTraining,
    spec: Spec,
    dataset: Dataset,
):
    """Checks a user's method by shapes, with the floats that its programs trace.

    Args:
      make: Floats -> method.

    Raises:
      UserError: A function fails, its result does not fit the others, it draws with
        NumPy or the clock, or it uses a traced value that another function kept.
    """

    def check(trace):
        check_method(trace, net, local, spec, dataset)

    check_repeatable(make, floats, check)


def check_method(
    trace: SlotTracer, net: Net, local: LocalTraining, spec: Spec, dataset: Dataset
):
    """Traces every function of a method with the shapes of one round.

    Args:
      net: Network of the clients and of the server's state.

    Raises:
      UserError: A function fails, or its result does not fit the others.
    """
    method = trace.method
    key = jax.eval_shape(make_key, 0)

    server = trace("init_server", key, net=net)
    down = jax.eval_shape(partial(wire.for_client, id=0), trace("broadcast", server))
    params, norm, _ = trace(
        "init_client", key, net=net, kind=_tuple("params, norm, memory")
    )
    _same(method, "receive", trace("receive", params, down), params, "init_client")
    _same(method, "receive_stats", trace("receive_stats", norm, down), norm, "norm")
    shapes = statelessness.client_shapes(method, net, local, dataset, EXAMPLES)
    client, data = shapes.client, Data(shapes.examples, shapes.shard)
    batch = jax.eval_shape(_batch, data, key)

    value, aux = trace(
        "loss", params, norm, batch, down, client, net=net, kind=_value_and_aux
    )
    if value.shape or not jnp.issubdtype(value.dtype, jnp.floating):
        raise slot_error(
            method, "loss", f"returns {describe(value)}; it must return a float scalar"
        )
    _same(method, "loss", aux.norm, norm, "LossAux.norm, the statistics `norm`,")
    _check_gradient(
        method, partial(method.loss, net), params, norm, batch, down, client
    )
    grads = trace("transform_grads", params)
    _same(method, "transform_grads", grads, params, "params")
    updates = trace("transform_updates", params)
    _same(method, "transform_updates", updates, params, "params")
    if method.trainable is not None:
        number = jax.ShapeDtypeStruct((), jnp.int32)
        grads = trace("trainable", number, number, params, pick=_trained_part)
        _same(method, "trainable", grads, params, "params")

    if method.two_exchanges:
        message = trace("pre_upload", client, data, down, net=net)
        after = trace("pre_aggregate", server, _of_clients(message), key)
        _same(method, "pre_aggregate", after, server, "init_server")
    arguments = client, client, data, down, aux.sums
    up, memory = trace("upload", *arguments, net=net, kind=_tuple("message, memory"))
    _same(method, "upload", memory, client.memory, "the memory of init_client")
    if method.release is not None:
        up = trace("release", client, data, up, down, key, net=net)
    ups = trace("update", _of_clients(up), pick=lambda m: m.aggregation.reduced)
    finish = attrgetter("aggregation.finish")
    after = trace("update", server, ups, key, net=net, pick=finish)
    _same(method, "update", after, server, "init_server")

    features = trace("features", client, batch.x, net=net)
    if features.ndim != 2 or len(features) != EXAMPLES:
        what = f"returns {describe(features)}; it must return features [{EXAMPLES},D]"
        raise slot_error(method, "features", what)
    by_rule = trace("predict", client, batch.x, down, net=net, kind=_rules)
    for rule, scores in by_rule.items():
        _check_scores(method, rule, scores, features, spec.num_classes)


def _check_gradient(method: Method, loss: Callable, params: Tree, *rest: Tree):
    """Raises UserError if a loss has no gradient for any parameter.

    The derivative of such a loss reads no tangent: JAX drops zeros that it knows
    without computing them.
    """

    def derivative(tangent, params, *rest):
        return jax.jvp(lambda params: loss(params, *rest)[0], (params,), (tangent,))[1]

    used = statelessness.inputs_used(derivative, params, params, *rest)[0]
    if jax.tree.leaves(params) and not any(jax.tree.leaves(used)):
        raise slot_error(
            method,
            "loss",
            "has no gradient for any parameter: it is constant, or depends on them "
            "through stop_gradient or whole numbers only; compute it from "
            "net.apply(params, ...)",
        )


def _batch(data: Data, key):
    position = jnp.arange(EXAMPLES)
    batch = batches.gather_examples(data, position, jnp.ones(EXAMPLES), key)
    return batch._replace(row=position, step=jnp.int32(0))


def _of_clients(tree: Tree) -> Tree:
    """Returns the shapes of messages with an axis of clients."""
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((CLIENTS, *a.shape), a.dtype), tree
    )


def _trained_part(method: Method) -> Callable:
    return partial(trained_part, method.trainable)


def _wrong_kind(found: Any, expected: str) -> ExplainedError:
    return ExplainedError(f"returns {kind_of(found)}; it must return {expected}")


def _tuple(names: str) -> Callable:
    """Returns a check that a result is a tuple with these entries."""

    def check(out):
        if not (isinstance(out, tuple) and len(out) == len(names.split(", "))):
            raise _wrong_kind(out, f"({names})")

    return check


def _value_and_aux(out: Any):
    """Raises `ExplainedError` unless a result is a loss with its auxiliary output."""
    if not (isinstance(out, tuple) and len(out) == 2 and isinstance(out[1], LossAux)):
        raise _wrong_kind(out, "(scalar, LossAux(norm, sums))")


def _rules(out: Any):
    """Raises `ExplainedError` unless a result has rules with scores."""
    if not (isinstance(out, Mapping) and out):
        raise _wrong_kind(out, "{rule: scores [B, C]}")


def _same(method: Method, slot: str, found: Tree, expected: Tree, source: str):
    """Raises UserError if structure, shapes or types of two trees differ.

    Args:
      slot: Field of the method that returns `found`.
      source: Origin of the expected tree, for the message.
    """
    want, have = (
        dict(jax.tree_util.tree_leaves_with_path(t)) for t in (expected, found)
    )
    for path in {**want, **have}:
        a, b = (
            describe(tree[path]) if path in tree else "nothing" for tree in (want, have)
        )
        if a != b:
            name = jax.tree_util.keystr(path)
            at = f" at {name}" if name else ""
            raise slot_error(method, slot, f"returns {b}{at}; {source} has {a} there")
    a, b = (repr(jax.tree.structure(tree)) for tree in (expected, found))
    if a != b:
        what = f"returns the tree {shorten(b)}; {source} has {shorten(a)}"
        raise slot_error(method, slot, what)


def _check_scores(method: Method, rule: str, scores, features, classes: int):
    """Raises UserError for predictions that are no scores of the classes [B, C].

    More than C columns are allowed, such as those of virtual classes, but not features.
    """
    columns = scores.shape[-1] if scores.ndim == 2 else 0
    if columns < classes or classes != columns == features.shape[-1]:
        what = (
            f"returns {describe(scores)} for the rule {rule!r}; it must return a score "
            f"for every class, [{EXAMPLES},{classes}] for {EXAMPLES} examples"
        )
        raise slot_error(method, "predict", what)

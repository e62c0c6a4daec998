"""Check of a method by shapes: every function, in the order of a round.

Nothing is computed. A message names the method, the function, what was expected and
found, and the line of the author's file.
"""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from jaxproto import batches, wire
from jaxproto.client import LocalTraining, trained_part
from jaxproto.data.dataset import Dataset
from jaxproto.errors import (
    UserError,
    describe_failure,
    failing_line,
    first_few,
    place_of,
    shorten,
)
from jaxproto.experiment import statelessness
from jaxproto.jax_settings import make_key
from jaxproto.method import Aggregation, Method
from jaxproto.methods import METHODS
from jaxproto.types import Data, LossAux, Net, Spec, Tree, describe, kind_of

EXAMPLES, CLIENTS = 3, 2  # in the shapes of the check
BRANCH = (
    "needs the value of a traced array in Python, as in an `if`; use jnp.where or "
    "jax.lax.cond, or annotate a float of the factory as Annotated[float, STATIC] "
    "(jaxproto.hyperparameters)"
)


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
        why = describe_failure(e)
        raise UserError(f"method {name!r}: its factory fails: {why}.") from e
    if not isinstance(method, Method):
        kind = type(method).__name__
        raise UserError(
            f"method {name!r}: its factory returns {kind}; it must return a "
            f"jaxproto.Method {place}"
        )
    return method


def check_method(
    method: Method, net: Net, local: LocalTraining, spec: Spec, dataset: Dataset
):
    """Traces every function of a method with the shapes of one round.

    Args:
      net: Network of the clients and of the server's state.

    Raises:
      UserError: A function fails, or its result does not fit the others.
    """
    trace = partial(_trace, method)
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
        raise _error(
            method, "loss", f"returns {describe(value)}; it must return a float scalar"
        )
    _same(method, "loss", aux.norm, norm, "LossAux.norm, the statistics `norm`,")
    grads = trace("transform_grads", params)
    _same(method, "transform_grads", grads, params, "params")
    if method.trainable is not None:
        number = jax.ShapeDtypeStruct((), jnp.int32)
        part = partial(trained_part, method.trainable)
        grads = trace("trainable", number, number, params, f=part)
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
    aggregation = method.aggregation
    finish = partial(aggregation.finish, net)
    note = f"; upload returns {_entries(up)}"
    ups = trace("update", _of_clients(up), f=aggregation.reduced, note=note)
    after = trace("update", server, ups, key, f=finish, note=note)
    _same(method, "update", after, server, "init_server")

    features = trace("features", client, batch.x, net=net)
    if features.ndim != 2 or len(features) != EXAMPLES:
        what = f"returns {describe(features)}; it must return features [{EXAMPLES},D]"
        raise _error(method, "features", what)
    by_rule = trace("predict", client, batch.x, down, net=net, kind=_rules)
    for rule, scores in by_rule.items():
        _check_scores(method, rule, scores, features, spec.num_classes)


def _batch(data: Data, key):
    position = jnp.arange(EXAMPLES)
    batch = batches.gather_examples(data, position, jnp.ones(EXAMPLES), key)
    return batch._replace(row=position, step=jnp.int32(0))


def _of_clients(tree: Tree) -> Tree:
    """Returns the shapes of messages with an axis of clients."""
    return jax.tree.map(
        lambda a: jax.ShapeDtypeStruct((CLIENTS, *a.shape), a.dtype), tree
    )


class _WrongKind(Exception):
    """Error of a function's result that has not the expected kind."""

    def __init__(self, found: Any, expected: str):
        super().__init__(f"returns {kind_of(found)}; it must return {expected}")


def _tuple(names: str) -> Callable:
    """Returns a check that a result is a tuple with these entries."""

    def check(out):
        if not (isinstance(out, tuple) and len(out) == len(names.split(", "))):
            raise _WrongKind(out, f"({names})")

    return check


def _value_and_aux(out: Any):
    """Raises `_WrongKind` unless a result is a loss with its auxiliary output."""
    if not (isinstance(out, tuple) and len(out) == 2 and isinstance(out[1], LossAux)):
        raise _WrongKind(out, "(scalar, LossAux(norm, sums))")


def _rules(out: Any):
    """Raises `_WrongKind` unless a result has rules with scores."""
    if not (isinstance(out, Mapping) and out):
        raise _WrongKind(out, "{rule: scores [B, C]}")


def _trace(
    method: Method,
    slot: str,
    *args: Tree,
    net: Net | None = None,
    f: Callable | None = None,
    kind: Callable | None = None,
    note: str = "",
) -> Any:
    """Returns the shapes of what a function of a method returns.

    Args:
      slot: Field of the method.
      args: Shapes of its arguments after `net`.
      net: First argument, if the function has one.
      f: Function, if it is not the field itself.
      kind: Check of the result, which raises `_WrongKind`.
      note: Addition to the message of a failure.
    """
    f = f or getattr(method, slot)
    f = f if net is None else partial(f, net)

    def call(*args):
        out = f(*args)
        if kind is not None:
            kind(out)
        return out

    try:
        return jax.eval_shape(call, *args)
    except UserError:
        raise
    except _WrongKind as e:
        raise _error(method, slot, f"{e}") from e
    except jax.errors.ConcretizationTypeError as e:
        raise _error(method, slot, f"{BRANCH}{failing_line(e)}") from e
    except Exception as e:  # an author's function may raise anything
        raise _error(method, slot, f"fails: {describe_failure(e)}{note}") from e


def _entries(tree: Tree) -> str:
    """Returns paths, types and shapes of the leaves of a tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    text = [f"{jax.tree_util.keystr(path)} {describe(a)}".strip() for path, a in leaves]
    return first_few(text)


def _error(method: Method, slot: str, what: str) -> UserError:
    f = getattr(method, slot)
    f = f.finish if isinstance(f, Aggregation) else f
    return UserError(f"method {method.name!r}: {slot} {what} ({place_of(f)}).")


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
            raise _error(method, slot, f"returns {b}{at}; {source} has {a} there")
    a, b = (repr(jax.tree.structure(tree)) for tree in (expected, found))
    if a != b:
        what = f"returns the tree {shorten(b)}; {source} has {shorten(a)}"
        raise _error(method, slot, what)


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
        raise _error(method, "predict", what)

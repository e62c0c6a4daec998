"""Dependence of computations on the state of clients, from jaxprs.

A method whose clients start every round from the broadcast, with a new optimiser, does
not depend on their earlier state, so that it need not be kept.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto import batches
from jaxproto import client as clients_
from jaxproto.client import LocalTraining
from jaxproto.method import Method
from jaxproto.types import Client, Data, Examples, Net, Shard, Tree

STATE_FIELDS = (
    "params",
    "norm",
    "opt",
    "memory",
)  # state of a client from earlier rounds


class ClientShapes(NamedTuple):
    """Inputs of one client, as `jax.ShapeDtypeStruct`."""

    client: Client
    down: Tree
    examples: Examples
    shard: Shard


def inputs_used(f: Callable, *args: Tree) -> list[bool]:
    """Returns whether the results of `f` depend on each leaf of its arguments.

    Inputs of loops, branches and inner functions count as used.
    """
    jaxpr = jax.make_jaxpr(f)(*args).jaxpr
    needed = {id(v) for v in jaxpr.outvars}
    for eqn in reversed(jaxpr.eqns):
        if any(id(v) in needed for v in eqn.outvars):
            needed |= {id(v) for v in eqn.invars}
    return [id(v) in needed for v in jaxpr.invars]


def client_shapes(
    method: Method,
    net: Net,
    local: LocalTraining,
    classes: int,
    examples: Examples,
    most: int,
) -> ClientShapes:
    """Returns the shapes of the inputs of a client.

    Args:
      method, net, local: of the client.
      classes: number of classes.
      examples: shapes of all examples.
      most: length of the index table of the client's examples.
    """
    key, number = jax.eval_shape(jax.random.key, 0), jax.ShapeDtypeStruct((), jnp.int32)
    count_C = jax.ShapeDtypeStruct((classes,), jnp.float32)
    start = partial(clients_.init_client, method, net, local)
    server = jax.eval_shape(partial(method.init_server, net), key)
    return ClientShapes(
        client=jax.eval_shape(start, key, number, count_C),
        down=jax.eval_shape(method.broadcast, server),
        examples=examples,
        shard=jax.eval_shape(lambda: Shard(jnp.zeros(most, int), jnp.int32(0))),
    )


def upload_depends_on_state(
    method: Method, net: Net, local: LocalTraining, one: ClientShapes
) -> bool:
    """Returns whether uploads depend on a client's state before the round."""

    def trained(client, down, examples, shard):
        task = clients_.LocalTask(method, net, local, jax.random.key(0), down, examples)
        session = clients_.begin_local_training(task, client, shard)
        session = clients_.local_steps(task, session, 0, 2, client, shard)
        received = client.replace(
            params=method.receive(client.params, down),
            norm=method.receive_stats(client.norm, down),
        )
        first = method.pre_upload(net, received, Data(examples, shard), down)
        return clients_.finish_local_training(task, session, client, shard)[1:], first

    return _asks(trained, one)


def rule_names(method: Method, net: Net, one: ClientShapes) -> tuple[str, ...]:
    """Returns the prediction rules of a method."""
    return tuple(jax.eval_shape(partial(predict_two_examples, method, net), *one))


def predict_two_examples(
    method: Method, net: Net, client, down, examples, shard, *, rule=""
):
    """Returns a client's scores of two examples by one rule, or by all ("")."""
    data, two = Data(examples, shard), jnp.arange(2)
    batch = batches.gather_examples(data, two, jnp.ones(2))
    by_rule = method.predict(net, client, batch.x, down)
    return by_rule[rule] if rule else by_rule


def client_independent_rules(
    method: Method, net: Net, one: ClientShapes
) -> tuple[str, ...]:
    """Returns the rules whose predictions do not depend on the client."""
    by = partial(predict_two_examples, method, net)
    names = rule_names(method, net, one)
    asks = {name: _asks(partial(by, rule=name), one, True) for name in names}
    return tuple(name for name, so in asks.items() if not so)


def _asks(f: Callable, one: ClientShapes, identity: bool = False) -> bool:
    """Returns whether `f` depends on a client's state, or also on its identity."""
    marks = jax.tree.unflatten(jax.tree.structure(one), inputs_used(f, *one))
    parts = STATE_FIELDS + (("count", "id", "steps") if identity else ())
    return any(jax.tree.leaves([getattr(marks.client, part) for part in parts]))

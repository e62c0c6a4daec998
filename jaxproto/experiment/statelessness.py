"""What of a client a computation reads, off its jaxpr.

A method whose clients begin every round with what they receive, and with a fresh
optimiser, reads nothing that a client had before: such clients need not be kept.
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
)  # what a client has from earlier rounds


class ClientShapes(NamedTuple):
    """What one client works with, as `jax.ShapeDtypeStruct`."""

    client: Client
    down: Tree
    examples: Examples
    shard: Shard


def inputs_used(f: Callable, *args: Tree) -> list[bool]:
    """Whether the results of `f` follow from each leaf of its arguments.

    Whatever goes into a loop, a branch or a function of its own counts as read there.
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
    """Of any client.

    Args:
      examples: shapes of all examples.
      most: of a client's examples.
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
    """Whether uploads follow from what a client had before the round."""

    def trained(client, down, examples, shard):
        task = clients_.LocalTask(method, net, local, jax.random.key(0), down, examples)
        session = clients_.begin_local_training(task, client, shard)
        session = clients_.local_steps(task, session, 0, 2, client, shard)
        own = client.replace(
            params=method.receive(client.params, down),
            norm=method.receive_stats(client.norm, down),
        )
        first = method.pre_upload(net, own, Data(examples, shard), down)
        return clients_.finish_local_training(task, session, client, shard)[1:], first

    return _asks(trained, one)


def rule_names(method: Method, net: Net, one: ClientShapes) -> tuple[str, ...]:
    """The rules of prediction."""
    return tuple(jax.eval_shape(partial(predict_two_examples, method, net), *one))


def predict_two_examples(
    method: Method, net: Net, client, down, examples, shard, *, rule=""
):
    """What a client makes of two examples by one rule, or by all of them."""
    data, two = Data(examples, shard), jnp.arange(2)
    batch = batches.gather_examples(data, two, jnp.ones(2))
    found = method.predict(net, client, batch.x, down)
    return found[rule] if rule else found


def client_independent_rules(
    method: Method, net: Net, one: ClientShapes
) -> tuple[str, ...]:
    """The rules that say of every client the same."""
    by = partial(predict_two_examples, method, net)
    names = rule_names(method, net, one)
    asks = {name: _asks(partial(by, rule=name), one, True) for name in names}
    return tuple(name for name, so in asks.items() if not so)


def _asks(f: Callable, one: ClientShapes, whatever: bool = False) -> bool:
    """Whether `f` reads what a client kept, or whatever it is."""
    marks = jax.tree.unflatten(jax.tree.structure(one), inputs_used(f, *one))
    parts = STATE_FIELDS + (("count", "id", "steps") if whatever else ())
    return any(jax.tree.leaves([getattr(marks.client, part) for part in parts]))

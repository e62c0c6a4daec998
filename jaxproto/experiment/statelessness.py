"""Analysis of jaxprs: whether a computation reads the earlier state of a client.

A method whose clients begin every round with the broadcast and a fresh optimiser does
not read their earlier state, so that it need not be stored.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto import wire
from jaxproto.core import batches
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Client, Data, Examples, Net, Shard, Tree
from jaxproto.data.dataset import Dataset
from jaxproto.round.client import (
    LocalTask,
    LocalTraining,
    begin_local_training,
    finish_local_training,
    init_client,
    local_step,
    receive,
)

STATE_FIELDS = ("params", "norm", "opt", "memory")  # of a client, from earlier rounds
CLIENT_FIELDS = (*STATE_FIELDS, "count", "id", "steps")


class ClientShapes(NamedTuple):
    """A client, its broadcast and its examples, as `jax.ShapeDtypeStruct`."""

    client: Client
    down: Tree
    examples: Examples
    shard: Shard


def inputs_used(f: Callable, *args: Tree) -> Tree:
    """Returns whether the results depend on each leaf of the arguments.

    Every input of a loop, a branch or a nested function counts as used.
    """
    jaxpr = jax.make_jaxpr(f)(*args).jaxpr
    needed = {id(v) for v in jaxpr.outvars}
    for eqn in reversed(jaxpr.eqns):
        if any(id(v) in needed for v in eqn.outvars):
            needed |= {id(v) for v in eqn.invars}
    used = [id(v) in needed for v in jaxpr.invars]
    return jax.tree.unflatten(jax.tree.structure(args), used)


def client_state_shapes(
    method: Method, net: Net, local: LocalTraining, dataset: Dataset
) -> Client:
    """Returns the shapes of a client's state; traces only its initialisation."""
    key, id = jax.eval_shape(make_key, 0), jax.ShapeDtypeStruct((), jnp.int32)
    count_C = jax.ShapeDtypeStruct((dataset.num_classes,), jnp.float32)
    return jax.eval_shape(partial(init_client, method, net, local), key, id, count_C)


def client_shapes(
    method: Method,
    net: Net,
    local: LocalTraining,
    dataset: Dataset,
    num_examples: int = 2,
) -> ClientShapes:
    """Returns the shapes of a client, its broadcast and its examples.

    Args:
      num_examples: number of examples of the client, of two in all.
    """
    key = jax.eval_shape(make_key, 0)
    server = jax.eval_shape(partial(method.init_server, net), key)
    return ClientShapes(
        client=client_state_shapes(method, net, local, dataset),
        down=jax.eval_shape(method.broadcast, server),
        examples=jax.eval_shape(partial(_two_examples, dataset)),
        shard=jax.eval_shape(lambda: Shard(jnp.zeros(num_examples, int), jnp.int32(0))),
    )


def _two_examples(dataset: Dataset) -> Examples:
    """Returns two examples of zeros in the shape of a data set."""
    public = None if dataset.public is None else jnp.zeros(1, jnp.int32)
    x = jnp.zeros((2, *dataset.x.shape[1:]), dataset.x.dtype)
    return Examples(x, jnp.zeros(2, jnp.int32), public)


def upload_depends_on_state(
    method: Method, net: Net, local: LocalTraining, shapes: ClientShapes
) -> bool:
    """Returns whether uploads depend on a client's state before the round."""

    def train(client, down, examples, shard):
        task = LocalTask(method, net, local, make_key(0), down, examples)
        session = begin_local_training(task, client, shard)
        step = partial(local_step, task, client, shard)
        session = jax.lax.fori_loop(0, 2, step, session)
        received, own_down = receive(method, client, down)
        data = Data(examples, shard)
        first_message = method.pre_upload(net, received, data, own_down)
        return finish_local_training(task, session, client, shard)[1:], first_message

    return _reads_client(train, shapes, STATE_FIELDS)


def rule_names(method: Method, net: Net, shapes: ClientShapes) -> tuple[str, ...]:
    """Returns the names of the prediction rules."""
    return tuple(jax.eval_shape(partial(predict_two_examples, method, net), *shapes))


def predict_two_examples(
    method: Method, net: Net, client, down, examples, shard, *, rule=""
):
    """Returns a client's predictions of two examples by one rule, or by all."""
    data = Data(examples, shard)
    batch = batches.gather_examples(data, jnp.arange(2), jnp.ones(2))
    own_down = wire.for_client(down, client.id)
    predictions = method.predict(net, client, batch.x, own_down)
    return predictions[rule] if rule else predictions


def client_independent_rules(
    method: Method,
    net: Net,
    shapes: ClientShapes,
    fields: Sequence[str] = CLIENT_FIELDS,
) -> tuple[str, ...]:
    """Returns the rules whose predictions do not depend on fields of a client."""
    predict = partial(predict_two_examples, method, net)
    return tuple(
        rule
        for rule in rule_names(method, net, shapes)
        if not _reads_client(partial(predict, rule=rule), shapes, fields)
    )


def _reads_client(f: Callable, shapes: ClientShapes, fields: Sequence[str]) -> bool:
    """Returns whether `f` reads one of the fields of the client."""
    client = inputs_used(f, *shapes)[0]
    return any(jax.tree.leaves([getattr(client, field) for field in fields]))

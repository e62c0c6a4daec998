"""Local training of one client. The only loop over local steps."""

import dataclasses
from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax import lax

from jaxproto import batches
from jaxproto.method import Method
from jaxproto.types import Array, Client, Data, Net, Tree


def restart(opt: optax.GradientTransformation, params: Tree, kept: Tree) -> Tree:
    """A fresh optimiser each round, as in the papers' code (spec 1.3)."""
    del kept
    return opt.init(params)


def keep(opt: optax.GradientTransformation, params: Tree, kept: Tree) -> Tree:
    """The optimiser goes on where the client's last round left it."""
    del opt, params
    return kept


@dataclasses.dataclass(frozen=True)
class Local:
    """How clients train between two exchanges (defaults: N Section 5.1)."""

    opt: optax.GradientTransformation
    epochs: int = 1
    batch_size: int = 32
    order: Callable = batches.shuffled  # key, shard -> positions [M] of an epoch
    whole: Callable = batches.wrap  # size, batch_size -> batches per epoch
    begin: Callable = restart  # opt, params, kept -> optimiser state


def init(method: Method, net: Net, how: Local, key: Array, id: Array, count: Array):
    """A new client. Its randomness depends on the key and its id alone.

    Args:
      count: training examples per class, float32 [C].
    """
    params, norm, memory = method.init_client(net, jax.random.fold_in(key, id))
    steps = jnp.zeros((), jnp.int32)
    return Client(params, norm, how.opt.init(params), memory, count, id, steps)


def train(method, net, how: Local, key, down, client: Client, data: Data):
    """One round of one client: receive, train, upload.

    Args:
      key: the round's key, the same for all clients.

    Returns:
      The client afterwards, its upload, and the mean of its losses.
    """
    order_key, step_key = jax.random.split(jax.random.fold_in(key, client.id))
    each = how.whole(data.shard.size, how.batch_size)
    steps = each * how.epochs
    params = method.receive(client.params, down)
    opt_state = how.begin(how.opt, params, client.opt)
    before = client.replace(params=params, opt=opt_state, steps=steps)

    epoch_keys = jax.random.split(order_key, how.epochs)
    order_EM = jnp.stack([how.order(k, data.shard) for k in epoch_keys])
    grad = jax.value_and_grad(partial(method.loss, net), has_aux=True)

    def gradient(params, norm, s):
        order_M = order_EM[s // jnp.maximum(each, 1)]
        at, key = s % jnp.maximum(each, 1), jax.random.fold_in(step_key, s)
        batch = batches.training_batch(data, order_M, at, how.batch_size, key)
        return grad(params, norm, batch, down, before)

    def step(s, carry):
        params, norm, opt_state, sums, total = carry
        (value, aux), slope = gradient(params, norm, s)
        move, opt_state = how.opt.update(slope, opt_state, params)
        sums = jax.tree.map(jnp.add, sums, aux.sums)
        params = optax.apply_updates(params, move)
        return params, aux.norm, opt_state, sums, total + value

    (_, aux), _ = jax.eval_shape(gradient, params, client.norm, 0)
    zero = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), aux.sums)
    start = (params, client.norm, opt_state, zero, jnp.zeros(()))
    end = lax.fori_loop(0, steps, step, start)
    params, norm, opt_state, sums, total = end
    after = before.replace(params=params, norm=norm, opt=opt_state)
    up, memory = method.upload(net, before, after, data, down, sums)
    return after.replace(memory=memory), up, total / jnp.maximum(steps, 1)


def score(method: Method, net: Net, down: Tree, client: Client, data: Data):
    """Correct predictions of one client per rule: {rule: count}.

    A score of -inf (no prototype) or nan is never correct.
    """

    def correct(batch, scores_BC):
        best_B = jnp.max(scores_BC, -1)
        hit_B = (jnp.argmax(scores_BC, -1) == batch.y) & jnp.isfinite(best_B)
        return jnp.sum(hit_B * batch.mask)

    def f(batch):
        by_rule = method.predict(net, client, batch.x, down)
        return {rule: correct(batch, scores) for rule, scores in by_rule.items()}

    return batches.sum_over(f, data)

"""Local training of one client."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from jaxproto import wire
from jaxproto.core import batches
from jaxproto.core.method import Method
from jaxproto.core.types import Array, Batch, Client, Data, Examples, Net, Shard, Tree


def reset_opt_state(
    opt: optax.GradientTransformation, params: Tree, state: Tree
) -> Tree:
    """Returns a fresh optimiser state in each round, as in the papers' code."""
    return opt.init(params)


def keep_opt_state(
    opt: optax.GradientTransformation, params: Tree, state: Tree
) -> Tree:
    """Returns the optimiser state of the client's last round."""
    return state


def constant_schedule(r: Array) -> float:
    """Returns 1, the factor of the learning rate in every round."""
    return 1.0


def all_steps(id: Array, steps: Array) -> Array:
    """Returns the steps of all epochs: no client stops earlier."""
    return steps


def per_client_init_key(key: Array, id: Array) -> Array:
    """Returns a key per client for its initial network (TinyProto, ProtoNorm)."""
    return jax.random.fold_in(key, id)


def shared_init_key(key: Array, id: Array) -> Array:
    """Returns one key for the initial networks of all clients, as in HtFLlib's code."""
    return jax.random.fold_in(key, jnp.zeros_like(id))


def batch_value_and_grad(loss: Callable) -> Callable:
    """Returns a function of the value and gradient of the loss of a batch."""
    return jax.value_and_grad(loss, has_aux=True)


@dataclasses.dataclass(frozen=True)
class LocalTraining:
    """Options of local training (defaults: ProtoNorm, Section 5.1)."""

    opt: optax.GradientTransformation
    epochs: int = 1
    batch_size: int = 32
    order: Callable = batches.shuffled  # key, shard -> positions [M] of an epoch
    # size, batch_size -> batches per epoch
    steps_per_epoch: Callable = batches.at_least_one_batch
    init_opt_state: Callable = reset_opt_state  # opt, params, state -> optimiser state
    limit_steps: Callable = all_steps  # client id, steps -> steps of this round
    schedule: Callable = constant_schedule  # round -> factor of the learning rate
    factor: float | Array = 1.0  # of the learning rate in this round
    init_key: Callable = per_client_init_key  # key, id -> key of the initial network
    gradient: Callable = batch_value_and_grad  # loss -> its value and gradient

    def at_round(self, r: Array) -> "LocalTraining":
        """Returns the options with the learning rate of round `r`, from 0."""
        return dataclasses.replace(self, factor=self.schedule(r))

    def steps_per_round(self, sizes_K: Sequence[int]) -> list[int]:
        """Returns the local steps per round of clients with so many examples."""
        with jax.ensure_compile_time_eval():  # also inside a traced function
            steps_K = self.steps_per_epoch(np.asarray(sizes_K), self.batch_size)
            return (np.asarray(steps_K) * self.epochs).tolist()


def init_client(
    method: Method, net: Net, local: LocalTraining, key: Array, id: Array, count: Array
):
    """Returns a new client; its randomness depends on the key and its id alone.

    Args:
      count: Training examples per class, float32 [C].
    """
    params, norm, memory = method.init_client(net, local.init_key(key, id))
    steps = jnp.zeros((), jnp.int32)
    return Client(params, norm, local.opt.init(params), memory, count, id, steps)


class LocalState(NamedTuple):
    """State of one client during its local training."""

    before: Client  # before training, after `receive`
    order: Array  # [E, M] positions of each epoch
    params: Tree
    norm: Tree
    opt: Tree
    sums: Tree  # of `LossAux.sums` over the steps so far
    loss: Array  # summed over the steps so far
    sums_before: dict[str, Array]  # `sums_of_parts` before training


class LocalTask(NamedTuple):
    """Inputs of local training that the clients of a cohort share in one round."""

    method: Method
    net: Net
    local: LocalTraining
    key: Array  # of the round, equal for all clients
    down: Tree  # the broadcast
    examples: Examples


def receive(method: Method, client: Client, down: Tree) -> tuple[Client, Tree]:
    """Returns a client after it received a broadcast, and its part of the broadcast."""
    down = wire.for_client(down, client.id)
    params = method.receive(client.params, down)
    norm = method.receive_stats(client.norm, down)
    return client.replace(params=params, norm=norm), down


def begin_local_training(task: LocalTask, client: Client, shard: Shard) -> LocalState:
    """Receives the broadcast, and orders the batches of all epochs."""
    local, (order_key, _) = task.local, _keys(task, client)
    steps = local.steps_per_epoch(shard.size, local.batch_size) * local.epochs
    steps = local.limit_steps(client.id, steps)
    client, down = receive(task.method, client, task.down)
    params, norm = client.params, client.norm
    opt = local.init_opt_state(local.opt, params, client.opt)
    before = client.replace(opt=opt, steps=steps)
    keys = jax.random.split(order_key, local.epochs)
    order_EM = jnp.stack([local.order(key, shard) for key in keys])
    zero, marks = jnp.zeros(()), sums_of_parts(params)
    start = LocalState(before, order_EM, params, norm, opt, (), zero, marks)
    loss = partial(task.method.loss, task.net)

    def sums_of_first_batch():
        batch = _batch(task, start, shard, 0)
        return loss(params, norm, batch, down, before)[1].sums

    return start._replace(sums=batches.zeros_for(sums_of_first_batch))


def sums_of_parts(params: Tree) -> dict[str, Array]:
    """Returns a checksum of each part of the parameters, such as `net.body`.

    It shows what training changed without a second copy of the parameters.
    """
    sums: dict[str, Array] = {}
    for path, a in jax.tree_util.tree_leaves_with_path(params):
        part = jax.tree_util.keystr(path[:2], simple=True, separator=".")
        bits = jax.lax.bitcast_convert_type(a, f"uint{8 * a.dtype.itemsize}")
        sums[part] = jnp.sum(bits, dtype=jnp.uint32) + sums.get(part, jnp.uint32(0))
    return sums


def changed_parts(state: LocalState) -> dict[str, Array]:
    """Returns whether training has changed each part of the parameters."""
    after = sums_of_parts(state.params)
    return {part: after[part] != old for part, old in state.sums_before.items()}


def num_steps(state: LocalState) -> Array:
    """Returns the local steps of the client in this round."""
    return state.before.steps


def local_step(
    task: LocalTask, client: Client, shard: Shard, s: Array, now: LocalState
) -> LocalState:
    """Takes local step `s`, from 0; the body of a loop over the steps."""
    del client  # `now.before` is the client after `receive`
    loss = task.local.gradient(partial(task.method.loss, task.net))
    down = wire.for_client(task.down, now.before.id)
    batch = _batch(task, now, shard, s)
    (value, aux), grads = loss(now.params, now.norm, batch, down, now.before)
    trained = partial(trained_part, task.method.trainable, s, now.before.steps)
    grads = trained(task.method.transform_grads(grads))
    updates, opt = task.local.opt.update(grads, now.opt, now.params)
    # last, as optax applies its learning rate
    updates = optax.tree.scale(task.local.factor, updates)
    updates = trained(task.method.transform_updates(updates))
    return now._replace(
        params=optax.apply_updates(now.params, updates),
        norm=aux.norm,
        opt=opt,
        sums=jax.tree.map(jnp.add, now.sums, aux.sums),
        loss=now.loss + value,
    )


def trained_part(trainable: Callable | None, step, steps, tree: Tree) -> Tree:
    """Returns gradients or updates with zeros for the parts that a step keeps fixed."""
    if trainable is None:
        return tree

    def masked(on, part):
        return jax.tree.map(lambda a: jnp.where(on, a, 0.0), part)

    return jax.tree.map(masked, trainable(step, steps), tree)


def finish_local_training(
    task: LocalTask, state: LocalState, client: Client, shard: Shard
):
    """Returns the client after training, its upload and its mean loss."""
    before, _, params, norm, opt, sums, loss, _ = state
    after = before.replace(params=params, norm=norm, opt=opt)
    data, down = Data(task.examples, shard), wire.for_client(task.down, before.id)
    up, memory = task.method.upload(task.net, before, after, data, down, sums)
    if task.method.release is not None:
        key = jax.random.fold_in(_client_key(task, before), RELEASE)
        up = task.method.release(task.net, after, data, up, down, key)
    return after.replace(memory=memory), up, loss / jnp.maximum(before.steps, 1)


def _batch(task: LocalTask, now: LocalState, shard: Shard, s) -> Batch:
    """Returns the batch of step `s`."""
    size = task.local.batch_size
    steps = jnp.maximum(task.local.steps_per_epoch(shard.size, size), 1)
    key = jax.random.fold_in(_keys(task, now.before)[1], s)
    data, order_M = Data(task.examples, shard), now.order[s // steps]
    batch = batches.training_batch(data, order_M, s % steps, size, key)
    return batch._replace(step=jnp.asarray(s))


def _keys(task: LocalTask, client: Client):
    """Returns the client's keys of batch order and steps in this round."""
    return jax.random.split(_client_key(task, client))


RELEASE = 2  # stream of a client's key; `split` of `_keys` uses 0 and 1


def _client_key(task: LocalTask, client: Client) -> Array:
    return jax.random.fold_in(task.key, client.id)

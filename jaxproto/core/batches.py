"""Batches of one client: their order, gathering on the device, and sums over them.

No other module turns index tables into examples, for training, prototypes and
evaluation.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto.core.types import Array, Batch, Data, Examples, Shard, Tree

EVAL_BATCH_SIZE = 64  # examples at a time, at most, where no gradient is taken
# 1 / 255 in two parts: x * HIGH is exact, so that x / 255 is rounded as on the host,
# unlike XLA's own division by 255
HIGH, LOW = 257 / 2**16, 1 / (255 * 2**16)


def tables(rows: Sequence[np.ndarray]) -> Shard:
    """Returns the index tables [K, M] of clients with these rows, on the host."""
    size = np.array([len(own) for own in rows], np.int32)
    index = np.zeros((len(rows), size.max()), np.int32)
    for k, own in enumerate(rows):
        index[k, : len(own)] = own
    return Shard(index, size)


def host_examples(
    x: np.ndarray, y: np.ndarray, public: np.ndarray | None = None
) -> Examples:
    """Returns examples on the host as a federation stores them: inputs as rows.

    Args:
      x: Inputs [N, ...].
      y: Classes [N].
      public: Numbers of the examples that server and all clients know [P].
    """
    labels: Any = jax.tree.map(lambda a: np.asarray(a, np.int32), (y, public))
    return Examples(flatten_inputs(x), labels[0], labels[1], x.shape[1:])


def flatten_inputs(x: np.ndarray) -> Any:
    """Reshapes inputs [N, ...] to [N, F] on the host, without a copy."""
    return np.asarray(x).reshape(len(x), math.prod(x.shape[1:]))


def normalise_inputs(x: Array) -> Array:
    """Normalises uint8 images to (x / 255 - 0.5) / 0.5, as the released code.

    Features and tokens stay as they are.
    """
    if x.dtype != jnp.uint8:
        return x
    x = x.astype(jnp.float32)
    return (x * HIGH + x * LOW - 0.5) / 0.5


def shuffled(key: Array, shard: Shard) -> Array:
    """Returns positions [M] in a new random order, padding last."""
    draw_M = jax.random.uniform(key, shard.index.shape)
    return jnp.argsort(jnp.where(jnp.arange(len(draw_M)) < shard.size, draw_M, 2.0))


def fixed(key: Array, shard: Shard) -> Array:
    """Returns positions [M] in the order of the partition, in every epoch."""
    return jnp.arange(len(shard.index))


def at_least_one_batch(size: Array, batch_size: int) -> Array:
    """Returns full batches per epoch; a client below one batch takes one step.

    The batch of that step repeats the client's examples, so that BatchNorm gets no
    padding. Repeats have mask 0, so that they do not count in the loss.
    """
    return jnp.where(size > 0, jnp.maximum(size // batch_size, 1), 0)


def whole_batches_only(size: Array, batch_size: int) -> Array:
    """Returns full batches per epoch; a client below one batch never trains."""
    return size // batch_size


def at_most(max_batches: int, batches_per_epoch: Callable) -> Callable:
    """Limits the batches per epoch; 0 is no limit.

    Args:
      batches_per_epoch: `at_least_one_batch` or `whole_batches_only`.
    """
    if not max_batches:
        return batches_per_epoch
    return lambda size, batch_size: jnp.minimum(
        batches_per_epoch(size, batch_size), max_batches
    )


def gather_examples(
    data: Data, pos_B: Array, mask_B: Array, key: Array | None = None
) -> Batch:
    """Gathers the examples at positions `pos_B` of one client."""
    examples, row_B = data.examples, data.shard.index[pos_B]
    x = examples.x[row_B]
    if examples.shape is not None:
        x = x.reshape(*row_B.shape, *examples.shape)
    return Batch(normalise_inputs(x), examples.y[row_B], mask_B, key)


def training_batch(data: Data, order_M: Array, i: Array, size: int, key) -> Batch:
    """Returns batch `i` of an epoch.

    A client with fewer examples than a batch repeats them with mask 0.

    Args:
      order_M: Positions among the client's examples, in the order of the epoch.
    """
    at_B = i * size + jnp.arange(size)
    real = jnp.maximum(data.shard.size, 1)
    mask_B = (at_B < data.shard.size).astype(jnp.float32)
    row_B = order_M[at_B % real]
    return gather_examples(data, row_B, mask_B, key)._replace(row=row_B)


def zeros_for(f: Callable[[], Tree]) -> Tree:
    """Returns zeros, to which results of `f` can be added.

    `f` is traced for its shapes; under `jax.disable_jit` it is called as it is.
    """
    plain = jax.config.jax_disable_jit  # type: ignore[attr-defined]
    shapes = f() if plain else jax.eval_shape(f)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


def sum_over_batches(f, data: Data) -> Tree:
    """Sums `f(batch)` over all examples of one client, in batches of equal sizes.

    It is not differentiable.

    Args:
      f: batch -> tree of sums. Rows with mask 0 must not count.
    """
    longest = max(len(data.shard.index), 1)
    batch_size = -(-longest // -(-longest // EVAL_BATCH_SIZE))

    def batch(i):
        at_B = i * batch_size + jnp.arange(batch_size)
        mask_B = (at_B < data.shard.size).astype(jnp.float32)
        return gather_examples(
            data, jnp.minimum(at_B, len(data.shard.index) - 1), mask_B
        )

    def step(i, total):
        return jax.tree.map(jnp.add, total, f(batch(i)))

    f = jax.jit(f)  # traced once for its shapes and for the loop
    zero = zeros_for(lambda: f(batch(0)))
    return lax.fori_loop(0, -(-data.shard.size // batch_size), step, zero)

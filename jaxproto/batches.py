"""Batches of one client: their order, their gathering on the device, sums over all.

The only place that turns index tables into examples, for training, for prototypes
and for evaluation alike.
"""

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto.types import Array, Batch, Data, Shard, Tree

EVAL_BATCH_SIZE = 64  # examples at a time, at most, where no gradient is taken
# 1 / 255 in two parts: x * HIGH is exact, so that x / 255 is rounded as on the host
HIGH, LOW = 257 / 2**16, 1 / (255 * 2**16)  # XLA's own division by 255 is not


def tables(rows: Sequence[np.ndarray]) -> Shard:
    """Returns the index tables [K, M] of clients with these rows, on the host."""
    size = np.array([len(own) for own in rows], np.int32)
    index = np.zeros((len(rows), size.max()), np.int32)
    for k, own in enumerate(rows):
        index[k, : len(own)] = own
    return Shard(index, size)


def normalise_inputs(x: Array) -> Array:
    """Images from uint8 to (x / 255 - 0.5) / 0.5; features and tokens as they are.

    As the released code: mean 0.5 and standard deviation 0.5 per channel.
    """
    if x.dtype != jnp.uint8:
        return x
    x = x.astype(jnp.float32)
    return (x * HIGH + x * LOW - 0.5) / 0.5


def shuffled(key: Array, shard: Shard) -> Array:
    """Positions [M] in a fresh random order, real rows first."""
    draw_M = jax.random.uniform(key, shard.index.shape)
    return jnp.argsort(jnp.where(jnp.arange(len(draw_M)) < shard.size, draw_M, 2.0))


def fixed(key: Array, shard: Shard) -> Array:
    """Positions [M] in the order of the split, the same in every epoch."""
    del key
    return jnp.arange(len(shard.index))


def at_least_one_batch(size: Array, batch_size: int) -> Array:
    """Whole batches per epoch; a client below one batch takes one step.

    That step's batch repeats the client's own examples, so BatchNorm sees real
    data only, and the repeats have mask 0, so the loss is the mean over its own.
    """
    return jnp.where(size > 0, jnp.maximum(size // batch_size, 1), 0)


def whole_batches_only(size: Array, batch_size: int) -> Array:
    """Whole batches per epoch; a client below one batch never trains."""
    return size // batch_size


def gather_examples(
    data: Data, pos_B: Array, mask_B: Array, key: Array | None = None
) -> Batch:
    """Gathers the examples at positions `pos_B` of one client."""
    every, row_B = data.examples, data.shard.index[pos_B]
    x = every.x[row_B]
    if every.shape is not None:
        x = x.reshape(*row_B.shape, *every.shape)
    return Batch(normalise_inputs(x), every.y[row_B], mask_B, key)


def training_batch(data: Data, order_M: Array, i: Array, size: int, key) -> Batch:
    """Batch `i` of an epoch in the order `order_M`; wraps round a short client."""
    at_B = i * size + jnp.arange(size)
    real = jnp.maximum(data.shard.size, 1)
    mask_B = (at_B < data.shard.size).astype(jnp.float32)
    return gather_examples(data, order_M[at_B % real], mask_B, key)


def zeros_for(f: Callable[[], Tree]) -> Tree:
    """Returns zeros, to which results of `f` can be added.

    `f` is traced for its shapes; under `jax.disable_jit` it is called as it is.
    """
    plain = jax.config.jax_disable_jit  # type: ignore[attr-defined]
    shapes = f() if plain else jax.eval_shape(f)
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


def sum_over_batches(f, data: Data, at_most: int = EVAL_BATCH_SIZE) -> Tree:
    """Adds `f(batch)` over all examples of one client; exact trip count, no gradient.

    Args:
      f: batch -> tree of sums. Rows with mask 0 must not count.
      at_most: examples in a batch; as many fewer as make the largest client's equal.
    """
    longest = max(len(data.shard.index), 1)
    batch_size = -(-longest // -(-longest // at_most))

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

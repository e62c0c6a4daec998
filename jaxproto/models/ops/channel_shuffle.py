"""Channel shuffle of ShuffleNetV2: interleaved channels of two arrays."""

import jax
import jax.numpy as jnp

from jaxproto.types import Array


def interleave(a: Array, b: Array) -> Array:
    """Interleaves channels a_0, b_0, a_1, ...: two [..., C] to [..., 2 C]."""
    return jnp.stack((a, b), -1).reshape(*a.shape[:-1], -1)


def interleave_by_product(a: Array, b: Array) -> Array:
    """Interleaves channels by two products with matrices of 0 and 1, for TPUs.

    In full precision each output is one channel plus zeros, so values and gradients are
    those of `interleave`. But an infinite channel makes other channels NaN.
    """
    n = a.shape[-1]
    row, column = jnp.arange(n)[:, None], jnp.arange(2 * n)
    full = jax.lax.Precision.HIGHEST  # a TPU rounds to bfloat16 otherwise

    def placed(x, g):
        place = (column == 2 * row + g).astype(x.dtype)
        return jnp.matmul(x, place, precision=full)

    return placed(a, 0) + placed(b, 1)

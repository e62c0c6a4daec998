"""Sums per channel in the form that XLA vectorises on CPU.

A sum over all axes but the last runs at a fraction of the memory's speed there. A sum
over a short axis before the last one runs at full speed, for several arrays in one
pass; the remaining sum is small.
"""

import functools
import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxproto.core.types import Array

SHORT = 8  # elements per first sum; 16 are as good, 32 are no longer unrolled
TOGETHER = 10  # arrays summed in one pass


def at_least_single(x: Array) -> Array:
    """Converts x to float32, unless it is more precise."""
    return x.astype(jnp.promote_types(x.dtype, jnp.float32))


def total(arrays: Iterable[Array]) -> Array:
    """Adds arrays of one shape, one after the other."""
    return functools.reduce(operator.add, arrays)


def column_sums(arrays: Sequence[Array]) -> Sequence[Array]:
    """Sums over axis 1 of arrays of one shape, in one pass, at least in float32."""
    arrays = [at_least_single(a) for a in arrays]
    zeros = tuple(jnp.zeros((), a.dtype) for a in arrays)
    add = lambda a, b: tuple(u + v for u, v in zip(a, b, strict=True))  # noqa: E731
    return lax.reduce(tuple(arrays), zeros, add, (1,))


def rows_first(images: Sequence[Array]) -> Array:
    """Returns the sums [N, C] of N arrays [B, H, W, C], TOGETHER of them in one pass.

    One pass over more arrays than fit into registers is slower than two passes.
    """
    sums = []
    for start in range(0, len(images), TOGETHER):
        group = images[start : start + TOGETHER]
        parts = (column_sums(rows) for rows in blocks(group))
        sums.append(sum(jnp.stack([jnp.sum(a, (0, 1)) for a in p]) for p in parts))
    return jnp.concatenate(sums)


def blocks(images: Sequence[Array]) -> Iterator[list[Array]]:
    """Yields slices of at most SHORT rows of images [B, H, W, C]."""
    for start in range(0, images[0].shape[1], SHORT):
        stop = min(start + SHORT, images[0].shape[1])
        yield [lax.slice_in_dim(a, start, stop, axis=1) for a in images]


def channel_sums(*arrays: Array) -> list[Array]:
    """Returns the sums [C] of arrays [..., C] over all axes but the last."""
    return [jnp.sum(a, tuple(range(a.ndim - 1))) for a in arrays]


def channel_sums_short(*arrays: Array) -> Sequence[Array]:
    """Computes `channel_sums` in groups of SHORT, all arrays in one pass."""
    channels = arrays[0].shape[-1]
    if arrays[0].size // channels % SHORT:
        return channel_sums(*arrays)
    grouped = [a.reshape(-1, SHORT, channels) for a in arrays]
    return [jnp.sum(a, 0) for a in column_sums(grouped)]


class Sums(NamedTuple):
    """Form of the sums of batch normalisation."""

    channels: Callable[..., Sequence[Array]]  # arrays [..., C] -> their sums [C]
    passes: int = 2  # over the input; `norm.moments` says what one pass means


PLAIN = Sums(channel_sums)
SHORT_FIRST = Sums(channel_sums_short)
ONE_PASS = Sums(channel_sums, passes=1)

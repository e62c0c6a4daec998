"""Pooling over windows of images [B, H, W, C], over images and over channels."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxproto.core.types import Array
from jaxproto.models.ops import channel_sums, window_taps


def max_pool_chain(x: Array, size: int, stride: int, padding: int = 0) -> Array:
    """Computes maxima over windows as a chain over shifted columns, then rows.

    Of equal elements the first in row-major order gets the whole gradient, as in
    PyTorch and in `max_pool_lax` (`jnp.maximum` would split it), and NaN stays NaN.
    On CPU this is 4 to 10 times faster than `reduce_window` with its gradient; one
    chain over all size * size slices is slower than either. Windows that do not overlap
    are pooled by `max_pool_disjoint`.
    """
    if size == stride and not padding:
        return max_pool_disjoint(x, size)
    rows, cols = window_taps.axes(x, (size, size), stride, padding)
    x = window_taps.pad(x, rows, cols, -jnp.inf)
    x = functools.reduce(first_max, window_taps.shifts(x, 2, cols))
    return functools.reduce(first_max, window_taps.shifts(x, 1, rows))


def first_max(a: Array, b: Array) -> Array:
    """Computes the elementwise maximum; gradients of ties go to `a`."""
    return jnp.where(exceeds(b, a), b, a)


def exceeds(b: Array, a: Array) -> Array:
    """Returns whether `b`, which comes later than `a`, replaces it as the maximum."""
    return (b > a) | jnp.isnan(b)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def max_pool_disjoint(x: Array, size: int) -> Array:
    """Computes maxima over disjoint windows, with a shorter gradient.

    The gradient compares each element's tap with that of its window's maximum. The
    transpose of the chain would spread and add up one map per column and row of the
    window.
    """
    return disjoint_forward(x, size)[0]


def disjoint_forward(x, size):
    """Returns the maxima, and the tap of each, counted in row-major order."""
    rows, cols = (n // size for n in x.shape[1:3])
    tiles = x[:, : rows * size, : cols * size]
    tiles = tiles.reshape(len(x), rows, size, cols, size, -1)
    best = tiles[:, :, 0, :, 0]
    tap = jnp.zeros(best.shape, jnp.int32)
    for t in range(1, size * size):
        other = tiles[:, :, t // size, :, t % size]
        larger = exceeds(other, best)
        best, tap = jnp.where(larger, other, best), jnp.where(larger, t, tap)
    return best, (tap, x.shape)


def disjoint_backward(size, kept, grad):
    """Returns the gradient of each window at its maximum, and zeros elsewhere."""
    tap, (_, height, width, _) = kept
    own_tap = jnp.arange(size * size).reshape(size, 1, size, 1)
    tap, spread = (a[:, :, None, :, None] for a in (tap, grad))
    grad_x = jnp.where(tap == own_tap, spread, 0)
    rows, cols = (n * size for n in grad.shape[1:3])
    grad_x = grad_x.reshape(len(grad), rows, cols, -1)
    padding = ((0, 0), (0, height - rows), (0, width - cols), (0, 0))
    return (jnp.pad(grad_x, padding),)


max_pool_disjoint.defvjp(disjoint_forward, disjoint_backward)


def max_pool_lax(x: Array, size: int, stride: int, padding: int = 0) -> Array:
    """Computes maxima over windows by XLA's own operation."""
    around = ((0, 0), (padding, padding), (padding, padding), (0, 0))
    window_BHWC, stride_BHWC = (1, size, size, 1), (1, stride, stride, 1)
    return lax.reduce_window(x, -jnp.inf, lax.max, window_BHWC, stride_BHWC, around)


def global_mean(x: Array) -> Array:
    """Averages over the image: [B, H, W, C] to [B, C]."""
    return jnp.mean(x, (1, 2))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def channel_pool(feat: Array, dim: int) -> Array:
    """Pools channels as PyTorch's AdaptiveAvgPool1d: [B, C] to [B, dim].

    Output i is the mean of inputs floor(i C / dim) to ceil((i + 1) C / dim) - 1; the
    windows overlap where dim does not divide C, and repeat channels where dim > C.
    It and its gradient are a few gathers, so the program has no C x dim constant, and
    no scatter, whose order is not fixed on a GPU.
    """
    return weighted_gathers(feat, pool_matrix(feat.shape[-1], dim))


def channel_pool_forward(feat, dim):
    """Returns the features, and the number of channels for the gradient."""
    return channel_pool(feat, dim), feat.shape[-1]


def channel_pool_backward(dim, channels, grad):
    """Multiplies by the transposed matrix, whose columns are short windows too."""
    return (weighted_gathers(grad, pool_matrix(channels, dim).T),)


channel_pool.defvjp(channel_pool_forward, channel_pool_backward)


def pool_matrix(channels: int, dim: int) -> np.ndarray:
    """Returns the averaging matrix [channels, dim] of `channel_pool`."""
    i = np.arange(dim)
    first, stop = i * channels // dim, -(-(i + 1) * channels // dim)
    c = np.arange(channels)[:, None]
    return ((c >= first) & (c < stop)) / (stop - first)


def weighted_gathers(x: Array, matrix: np.ndarray) -> Array:
    """Multiplies x [B, N] by a matrix [N, N'] with few, adjacent entries per column."""
    if matrix.shape[0] == matrix.shape[1]:
        return x
    used = matrix > 0
    first, count = used.argmax(0), used.sum(0)
    parts = []
    for step in range(count.max()):
        row = np.minimum(first + step, len(matrix) - 1)
        weight = np.take_along_axis(matrix, row[None], 0)[0] * (step < count)
        parts.append(x[:, row] * weight.astype(x.dtype))
    return channel_sums.total(parts)

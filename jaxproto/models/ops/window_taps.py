"""Sliding windows over images as shifted, strided slices.

Along one axis a window of length k with stride s and padding p has k taps: tap t of
output o reads input o * s + t - p. A tap is live if it reads a real element for some
output. On small maps most taps of a large kernel read only padding.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax

from jaxproto.core.types import Array


class WindowAxis(NamedTuple):
    """Window along one axis, as Python ints."""

    size: int  # elements of the input
    window: int
    stride: int
    padding: int  # on each side

    @property
    def out(self) -> int:
        """Number of outputs; a last incomplete window is dropped, as in PyTorch."""
        return (self.size + 2 * self.padding - self.window) // self.stride + 1

    @property
    def live(self) -> range:
        """Range from the first to the last live tap."""
        starts = [o * self.stride - self.padding for o in range(self.out)]
        taps = [t for t in range(self.window) for s in starts if 0 <= s + t < self.size]
        return range(min(taps), max(taps) + 1)

    @property
    def around(self) -> tuple[int, int]:
        """Elements of the padding, before and after, that live taps read."""
        last = (self.out - 1) * self.stride + self.live.stop - 1 - self.padding
        return self.padding - self.live.start, max(last - self.size + 1, 0)


def axes(
    x: Array, window: tuple[int, ...], stride: int, padding: int
) -> tuple[WindowAxis, ...]:
    """Returns the windows along height and width of x [B, H, W, C]."""
    return tuple(
        WindowAxis(n, k, stride, padding)
        for n, k in zip(x.shape[1:3], window, strict=True)
    )


def pad(x: Array, rows: WindowAxis, cols: WindowAxis, value: float = 0.0) -> Array:
    """Pads x [B, H, W, C] with `value`, only where live taps read."""
    if rows.around == cols.around == (0, 0):
        return x
    around = ((0, 0, 0), (*rows.around, 0), (*cols.around, 0), (0, 0, 0))
    return lax.pad(x, jnp.asarray(value, x.dtype), around)


def shift(x: Array, tap: int, axis: int, along: WindowAxis) -> Array:
    """Returns the elements of padded x that a tap reads along axis 1 or 2."""
    start = tap - along.live.start
    stop = start + (along.out - 1) * along.stride + 1
    return lax.slice_in_dim(x, start, stop, along.stride, axis)


def shifts(x: Array, axis: int, along: WindowAxis) -> list[Array]:
    """Returns the elements of padded x that each live tap reads along an axis."""
    return [shift(x, tap, axis, along) for tap in along.live]


def slices(x: Array, rows: WindowAxis, cols: WindowAxis) -> list[Array]:
    """Returns the elements of padded x that each live tap reads, row by row."""
    return [part for row in shifts(x, 1, rows) for part in shifts(row, 2, cols)]

"""Convolutions of stride 1 with fewer products: Winograd's minimal filters along rows.

m output rows Y of a kernel g with k rows depend on n = m + k - 1 input rows d. They
need n products of whole rows, which are matrices here, instead of m k:

    Y = A [(G g) * (B d)],        A [m, n], G [n, k], B [n, n]

A, G and B are Cook and Toom's for some points. With the few used here, results agree
with a direct convolution to about 1e-6 of the largest. Sums of rows are products with
constant matrices (XLA would compute a sum again for each of its uses); columns are
shifted slices, concatenated. The gradients are the transposes of these steps, written
out: XLA's own take up to twice as long.

Winograd, Arithmetic Complexity of Computations, SIAM 1980. Lavin and Gray, "Fast
Algorithms for Convolutional Neural Networks", CVPR 2016,
https://arxiv.org/abs/1509.09308, filter both dimensions. Filters in one dimension, as
here, lose less precision.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto.core.types import Array
from jaxproto.models.ops import channel_sums
from jaxproto.models.ops.row_product import matmul, matmul_turned, rounded

POINTS = (0, 1, -1, 2, -2, 0.5, -0.5)  # and infinity
ROWS = {3: 2, 5: 4}  # kernel's rows -> output rows of a filter, the fastest measured
CHANNELS = 32  # with fewer, the sums of rows take as long as the saved products


class Filter(NamedTuple):
    """Matrices A, B and G of a minimal filter."""

    out: np.ndarray  # A [m, n]
    kernel: np.ndarray  # G [n, k]
    rows: np.ndarray  # B [n, n]


@functools.cache
def minimal(m: int, k: int) -> Filter:
    """Returns the filter of m output rows of a kernel with k rows."""
    point, n = np.array(POINTS[: m + k - 2], float), m + k - 1
    a, g, b = np.zeros((m, n)), np.zeros((n, k)), np.zeros((n, n))
    a[:, :-1] = point ** np.arange(m)[:, None]
    a[-1, -1] = g[-1, -1] = 1.0  # the point at infinity
    for i, p in enumerate(point):
        others = np.delete(point, i)
        g[i] = p ** np.arange(k) / np.prod(p - others)
        b[i, :-1] = np.poly(others)[::-1]
    b[-1] = np.poly(point)[::-1]
    return Filter(a, g, b)


class Plan(NamedTuple):
    """Sizes of one convolution, as Python ints."""

    height: int  # of the input
    rows: int  # of the output
    cols: int  # of the output
    tiles: int  # filters along the rows; the last may reach beyond the output
    m: int  # output rows of a filter
    k: int  # rows and columns of the kernel
    padding: int

    @property
    def n(self) -> int:
        """Input rows of a filter, and products."""
        return self.m + self.k - 1


def plan(x: Array, kernel: Array, padding: int) -> Plan:
    """Plans the convolution of x [B, H, W, C] with kernel [k, k, C, C']."""
    k = len(kernel)
    rows, cols = (n + 2 * padding - k + 1 for n in x.shape[1:3])
    m = ROWS[k]
    return Plan(x.shape[1], rows, cols, -(-rows // m), m, k, padding)


@functools.cache
def transforms(p: Plan) -> tuple[np.ndarray, np.ndarray]:
    """Returns B [n tiles, height] and A [rows, n tiles] for all rows of an image."""
    out, _, rows = minimal(p.m, p.k)
    whole_in = np.zeros((p.n, p.tiles, p.height + 2 * p.padding + p.m), np.float32)
    whole_out = np.zeros((p.tiles, p.m, p.n, p.tiles), np.float32)
    for t in range(p.tiles):
        whole_in[:, t, t * p.m : t * p.m + p.n] = rows
        whole_out[t, :, :, t] = out
    read = whole_in[:, :, p.padding : p.padding + p.height]  # the rest reads zeros
    return read.reshape(-1, p.height), whole_out.reshape(-1, p.n * p.tiles)[: p.rows]


def fits(x: Array, kernel: Array, stride: int) -> bool:
    """Returns whether this is the fastest form of a convolution on CPU."""
    k, width, inputs, outputs = kernel.shape
    large = min(inputs, outputs) >= CHANNELS and min(x.shape[1:3]) >= 4
    exact = x.dtype == kernel.dtype == jnp.float32  # the filters lose some digits
    return stride == 1 and k == width and k in ROWS and large and exact


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def conv_winograd(
    x: Array, kernel: Array, padding: int = 0, operands: str | None = None
) -> Array:
    """Convolves with stride 1, without bias.

    Args:
      x: Images [B, H, W, C].
      kernel: [k, k, C, C'], k 3 or 5.
      padding: Zeros on every side.
      operands: Number format to which operands of products are rounded, as in
        `row_product.product`; sums of rows are in float32.
    """
    return forward(x, kernel, padding, operands)[0]


def forward(x, kernel, padding, operands):
    """Returns the output, and the values for the gradient."""
    p = plan(x, kernel, padding)
    wide = rounded(windows(x, p), operands)
    product = matmul(wide, rounded(transformed(kernel, p), operands))
    y = over_rows(transforms(p)[1], product.reshape(p.n * p.tiles, -1))
    y = y.reshape(p.rows, len(x), p.cols, -1).swapaxes(0, 1)
    return y, (x, kernel, wide)


def backward(padding, operands, kept, grad):
    """Computes the gradients of input and kernel."""
    x, kernel, wide = kept
    p, outputs = plan(x, kernel, padding), kernel.shape[3]
    grad = grad.swapaxes(0, 1).reshape(p.rows, -1)
    grad = over_rows(transforms(p)[1].T, grad).reshape(p.n, -1, outputs)
    grad = rounded(grad, operands)
    matrix = jax.lax.optimization_barrier(matmul_turned(grad, wide))  # as `grad_matrix`
    back = minimal(p.m, p.k).kernel.T.astype(np.float32)
    grad_kernel = over_rows(back, matrix).swapaxes(1, 2).reshape(kernel.shape)
    weights = rounded(transformed(kernel, p), operands)
    grad_wide = matmul(grad, weights.swapaxes(1, 2))
    return grad_input(x, grad_wide, p), grad_kernel


conv_winograd.defvjp(forward, backward)


def over_rows(matrix: np.ndarray, x: Array) -> Array:
    """Multiplies a constant [N', N] by x [N, ...] to [N', ...]."""
    return jnp.matmul(matrix, x.reshape(len(x), -1)).reshape(-1, *x.shape[1:])


def by_column(matrix: np.ndarray, x: Array) -> Array:
    """Multiplies a constant [N', N] by each [N, C] of x [B, W, N, C].

    One product per image and column leaves the channels an axis of their own, along
    which XLA vectorises the operations that it fuses with the product.
    """
    return jnp.broadcast_to(matrix, (*x.shape[:2], *matrix.shape)) @ x


def transformed(kernel: Array, p: Plan) -> Array:
    """Computes G g, [n, k C, C']."""
    matrix = minimal(p.m, p.k).kernel.astype(np.float32)
    return over_rows(matrix, kernel).reshape(p.n, -1, kernel.shape[3])


def windows(x: Array, p: Plan) -> Array:
    """Computes B d with the neighbours of each column: [n, tiles B cols, k C]."""
    x = jnp.pad(x, ((0, 0), (0, 0), (p.padding, p.padding), (0, 0)))
    rows = by_column(transforms(p)[0], x.swapaxes(1, 2)).transpose(2, 0, 1, 3)
    slices = [rows[:, :, j : j + p.cols] for j in range(p.k)]
    return jnp.concatenate(slices, -1).reshape(p.n, -1, p.k * x.shape[3])


def grad_input(x: Array, grad_wide: Array, p: Plan) -> Array:
    """Returns the transpose of `windows`: columns first, then rows."""
    wide = grad_wide.reshape(p.n * p.tiles, len(x), p.cols, -1)
    shifted = (
        jnp.pad(part, ((0, 0), (0, 0), (j, p.k - 1 - j), (0, 0)))
        for j, part in enumerate(jnp.split(wide, p.k, 3))
    )
    rows = channel_sums.total(shifted).transpose(1, 2, 0, 3)
    whole = by_column(transforms(p)[0].T, rows).swapaxes(1, 2)
    return whole[:, :, p.padding : p.padding + x.shape[2]]

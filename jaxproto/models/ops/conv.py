"""Convolutions of images [B, H, W, C] with kernels [kh, kw, C, C'], without bias.

All forms of an operation have one signature and, up to rounding, one result. The `lax`
forms are XLA's own operations, for TPUs. Elsewhere a convolution multiplies its shifted
and concatenated slices by one matrix; a depthwise one is a sum of shifted products. On
CPUs, XLA has only a slow path for the gradient of a convolution inside a loop (3 to 8
GF/s on two cores; the matrix reaches 100 to 290). On GPUs, `vmap` over clients, each
with its own kernels, turns XLA's operation into a grouped convolution, which takes up
to 21 times as long on an H100. Taps that read only padding are left out.
"""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.core.types import Array
from jaxproto.models.ops import channel_sums, window_taps, winograd
from jaxproto.models.ops.row_product import product, round_gradient, round_value


def conv_lax(
    x: Array, kernel: Array, stride: int = 1, padding: int = 0, groups: int = 1
) -> Array:
    """Convolves by XLA's own operation.

    Args:
      x: Images [B, H, W, C].
      kernel: [kh, kw, C / groups, C'].
      stride: Stride of both axes.
      padding: Zeros on every side.
      groups: Independent slices of the channels; with C of them it is depthwise.
    """
    return lax.conv_general_dilated(
        x,
        kernel,
        (stride, stride),
        ((padding, padding), (padding, padding)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=groups,
    )


def depthwise_lax(x: Array, kernel: Array, stride: int = 1, padding: int = 0) -> Array:
    """Convolves depthwise, kernel [kh, kw, 1, C], by XLA's own operation."""
    return conv_lax(x, kernel, stride, padding, groups=x.shape[-1])


def conv_matmul(x: Array, kernel: Array, stride: int = 1, padding: int = 0) -> Array:
    """Convolves by shifted slices, concatenated, times one matrix.

    With stride 1 and many channels it uses Winograd's filters, where they fit. A large
    kernel on many channels is one matrix per row: with a single matrix the input would
    be copied k * k times, and the gradient spread as often.
    """
    if winograd.fits(x, kernel, stride):
        return winograd.conv_winograd(x, kernel, padding)
    if kernel.shape[2] < 16:
        return conv_of_few(x, kernel, stride, padding)
    if min(kernel.shape[:2]) >= 5:
        return conv_by_row(x, kernel, stride, padding)
    return conv_by_tap(x, kernel, stride, padding)


def conv_bfloat16(x: Array, kernel: Array, stride: int = 1, padding: int = 0) -> Array:
    """Computes `conv_matmul` with operands rounded to bfloat16.

    Products of few channels do not gain from the format, and Winograd's filters of 5
    rows would lose two of its eight bits. Both multiply rounded operands in float32.
    """
    if winograd.fits(x, kernel, stride) and len(kernel) == 3:
        return winograd.conv_winograd(x, kernel, padding, "bfloat16")
    if kernel.shape[2] < 16 or min(kernel.shape[:2]) >= 5:
        x, kernel = round_value(x), round_value(kernel)
        return round_gradient(conv_matmul(x, kernel, stride, padding))
    return conv_by_tap(x, kernel, stride, padding, "bfloat16")


def conv_by_tap(
    x: Array,
    kernel: Array,
    stride: int = 1,
    padding: int = 0,
    operands: str | None = None,
) -> Array:
    """Convolves by one product; `operands` as in `row_product.product`."""
    slices, live = patches(x, kernel, stride, padding)
    return times(jnp.concatenate(slices, -1), live, operands)


def conv_of_few(x: Array, kernel: Array, stride: int = 1, padding: int = 0) -> Array:
    """Convolves by one product of slices concatenated along columns, then rows.

    Slices of few channels are copied slowly, so columns are concatenated first.
    """
    rows, cols = window_taps.axes(x, kernel.shape[:2], stride, padding)
    x = window_taps.pad(x, rows, cols)
    x = jnp.concatenate(window_taps.shifts(x, 2, cols), -1)
    x = jnp.concatenate(window_taps.shifts(x, 1, rows), -1)
    return times(x, taps(kernel, rows, cols))


def conv_by_row(x: Array, kernel: Array, stride: int = 1, padding: int = 0) -> Array:
    """Convolves by a product for each row of the kernel; columns are copied once."""
    rows, cols = window_taps.axes(x, kernel.shape[:2], stride, padding)
    x = window_taps.pad(x, rows, cols)
    wide = jnp.concatenate(window_taps.shifts(x, 2, cols), -1)
    live = taps(kernel, rows, cols)
    return channel_sums.total(map(times, window_taps.shifts(wide, 1, rows), live))


def times(x: Array, kernel: Array, operands: str | None = None) -> Array:
    """Multiplies x [B, H, W, N] by a kernel [..., C'] as a matrix [N, C']."""
    matrix = kernel.reshape(x.shape[-1], -1)
    rows = x.reshape(-1, x.shape[-1])
    return product(rows, matrix, operands).reshape(*x.shape[:3], -1)


def grouped_matmul(
    x: Array, kernel: Array, stride: int = 1, padding: int = 0, groups: int = 1
) -> Array:
    """Convolves in groups by shifted slices and one matrix per group."""
    slices, live = patches(x, kernel, stride, padding)
    x = jnp.stack(slices, 3)  # [B, H, W, taps, C]
    x = x.reshape(*x.shape[:4], groups, -1)
    live = live.reshape(len(slices), live.shape[2], groups, -1)
    out = jnp.einsum("bhwtgc,tcgd->bhwgd", x, live)
    return out.reshape(*out.shape[:3], -1)


def patches(x: Array, kernel: Array, stride: int, padding: int):
    """Returns a slice [B, H', W', C] per live tap, and the live taps of the kernel."""
    rows, cols = window_taps.axes(x, kernel.shape[:2], stride, padding)
    x = window_taps.pad(x, rows, cols)
    return window_taps.slices(x, rows, cols), taps(kernel, rows, cols)


def taps(
    kernel: Array, rows: window_taps.WindowAxis, cols: window_taps.WindowAxis
) -> Array:
    """Returns the live taps of the kernel."""
    i, j = rows.live, cols.live
    return kernel[i.start : i.stop, j.start : j.stop]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def depthwise_shift(
    x: Array, kernel: Array, stride: int = 1, padding: int = 0
) -> Array:
    """Convolves depthwise by a sum of shifted products.

    Columns are shifted once and rows after each row's sum: k + k slices, not k * k.
    XLA's own transpose is up to three times slower than the gradient below: for the
    input such a sum again, for the kernel a product per tap, summed over positions.
    """
    rows, cols = window_taps.axes(x, kernel.shape[:2], stride, padding)
    return row_sums(window_taps.pad(x, rows, cols), kernel, rows, cols)


def row_sums(x, kernel, rows, cols):
    """Sums shifted x times kernel over the live taps (i, j); x is padded."""
    by_col = [*zip(window_taps.shifts(x, 2, cols), cols.live, strict=True)]

    def row(i):
        total = sum(column * kernel[i, j, 0] for column, j in by_col)
        return window_taps.shift(total, i, 1, rows)

    return sum(map(row, rows.live))


def depthwise_forward(x, kernel, stride, padding):
    """Returns the output, and the values for the gradient."""
    return depthwise_shift(x, kernel, stride, padding), (x, kernel)


def depthwise_backward(stride, padding, kept, grad):
    """Computes the gradients of input and kernel."""
    x, kernel = kept
    rows, cols = window_taps.axes(x, kernel.shape[:2], stride, padding)
    grad_x = depthwise_grad_input(kernel, grad, rows, cols)
    return grad_x, depthwise_grad_kernel(x, kernel, grad, rows, cols)


def depthwise_grad_input(kernel, grad, rows, cols):
    """Convolves the spread gradient with the reversed live taps, with stride 1."""
    reverse = jnp.flip(taps(kernel, rows, cols), (0, 1))
    zeros = [spread_out(a) for a in (rows, cols)]
    spread = lax.pad(grad, jnp.zeros((), grad.dtype), ((0, 0, 0), *zeros, (0, 0, 0)))
    sizes = zip(spread.shape[1:3], reverse.shape[:2], strict=True)
    return row_sums(
        spread, reverse, *(window_taps.WindowAxis(n, k, 1, 0) for n, k in sizes)
    )


def spread_out(along) -> tuple[int, int, int]:
    """Returns the numbers of zeros before, after and between outputs."""
    before = along.live.stop - 1 - along.padding
    reached = (along.out - 1) * along.stride + 1 + before
    return before, along.size + len(along.live) - 1 - reached, along.stride - 1


def depthwise_grad_kernel(x, kernel, grad, rows, cols):
    """Sums gradient times shifted input per live tap; that of other taps is 0.

    One pass over a few rows computes all taps, up to seven times faster than a sum per
    tap. Without the barrier XLA would recompute x once per tap.
    """
    x = window_taps.pad(x, rows, cols)
    if len(rows.live) * len(cols.live) > 1:
        x, grad = lax.optimization_barrier((x, grad))
    products = [part * grad for part in window_taps.slices(x, rows, cols)]
    live = channel_sums.rows_first(products).astype(kernel.dtype)
    live = live.reshape(len(rows.live), len(cols.live), *kernel.shape[2:])
    missing = ((a.live.start, a.window - a.live.stop, 0) for a in (rows, cols))
    return lax.pad(live, jnp.zeros((), live.dtype), (*missing, (0, 0, 0), (0, 0, 0)))


depthwise_shift.defvjp(depthwise_forward, depthwise_backward)

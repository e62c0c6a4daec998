"""Products of rows with a matrix, whose gradients are fast on CPUs too.

There are three products: rows times matrix, and its two gradients. XLA's libraries
compute some of them faster with operands and result transposed. XLA would undo the
transposition, so a barrier follows it (times: benchmarks/RESULTS.md).
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental.layout import Layout, with_layout_constraint

from jaxproto.core.types import Array
from jaxproto.models.ops.channel_sums import total

BFLOAT16 = 8, 7  # bits of the exponent and of the fraction
FEWEST, LARGE = 16, 2**17  # most rows, fewest elements of a matrix for `grad_of_few`
FEW = 64  # rows below which `grad_rows` has the matrix as its first operand


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def product(x: Array, matrix: Array, operands: str | None = None) -> Array:
    """Multiplies x [R, N] by a matrix [N, N'], with faster gradients.

    Args:
      x: Rows [R, N].
      matrix: [N, N'].
      operands: Number format to which the operands of the product and of its gradients
        are rounded; None leaves them. Sums are float32 or more precise.
    """
    return forward(x, matrix, operands)[0]


@jax.custom_vjp
def round_value(x: Array) -> Array:
    """Rounds x to values of bfloat16, but not its gradient."""
    return lax.reduce_precision(x, *BFLOAT16)


@jax.custom_vjp
def round_gradient(x: Array) -> Array:
    """Returns x; rounds its gradient to values of bfloat16."""
    return x


round_value.defvjp(lambda x: (round_value(x), None), lambda _, grad: (grad,))
round_gradient.defvjp(lambda x: (x, None), lambda _, grad: (round_value(grad),))


def rounded(x: Array, operands: str | None) -> Array:
    """Rounds x to a number format; None leaves it."""
    return x if operands is None else x.astype(operands)


def matmul(a: Array, b: Array) -> Array:
    """Multiplies [..., R, N] by [..., N, N'] with sums of at least float32."""
    return summed(jnp.matmul, a, b)


def summed(multiply: Callable[..., Array], a: Array, b: Array, *static) -> Array:
    """Multiplies with sums of at least float32.

    A barrier follows products of fewer digits: XLA merges such a product with a
    transpose behind it to one that its CPU runtime lacks.
    """
    sums = jnp.promote_types(a.dtype, jnp.float32)
    out = multiply(a, b, *static, preferred_element_type=sums)
    return out if a.dtype == sums else lax.optimization_barrier(out)


def forward(x, matrix, operands):
    """Returns the product, and the rounded operands for the gradient."""
    kept = rounded(x, operands), rounded(matrix, operands)
    return matmul(*kept).astype(x.dtype), kept


def backward(operands, kept, grad):
    """Computes the gradients of the rows and of the matrix.

    For few rows and a large matrix, the gradient of the matrix is a sum of products of
    vectors: XLA fuses it into its addition to the matrix, and never writes it to
    memory. The gradient of the rows is computed before, as it reads the old matrix.
    """
    (x, matrix), given = kept, grad.dtype
    grad = rounded(grad, operands)
    rows = grad_rows(grad, matrix).astype(given)
    if len(x) > FEWEST or matrix.size < LARGE:
        return rows, grad_matrix(x, grad).astype(given)
    rows, x, grad = lax.optimization_barrier((rows, x, grad))
    return rows, grad_of_few(x.astype(given), grad.astype(given))


def grad_of_few(x: Array, grad: Array) -> Array:
    """Computes `grad_matrix` as a sum over rows of outer products."""
    return total(a[:, None] * b for a, b in zip(x, grad, strict=True))


product.defvjp(forward, backward)


def grad_rows(grad: Array, matrix: Array) -> Array:
    """Multiplies grad [R, N'] by the transpose of a matrix [N, N'].

    XLA copies the second operand before the product. For few rows a copy of the matrix
    would take longer than the product, so the matrix is the first operand.
    """
    if len(grad) < FEW:
        return lax.optimization_barrier(contract(matrix, grad, 1)).T
    return contract(grad, matrix, 1)


def grad_matrix(x: Array, grad: Array) -> Array:
    """Multiplies the transpose of x [R, N] by grad [R, N'].

    XLA copies the first operand of a sum over rows more slowly than the second, so the
    narrower one is first, unless the result is too large to be transposed.
    """
    (rows, inputs), outputs = x.shape, grad.shape[1]
    if x.dtype == jnp.bfloat16:
        small = rows * inputs < (rows + inputs) * outputs  # elements that are copied
        return matmul_turned(x, grad) if small else matmul_turned(grad, x).T
    if rows >= 4 * outputs and 2 * inputs >= 3 * outputs:
        return lax.optimization_barrier(contract(grad, x, 0)).T
    return contract(x, grad, 0)


def matmul_turned(a: Array, b: Array) -> Array:
    """Multiplies the transpose of a [..., R, N] by b [..., R, N'].

    The transpose of bfloat16 is copied: XLA's library has no such product with a
    transposed first operand, and XLA would convert both to float32. Without the layout
    constraint XLA would not copy, but read the operand by columns.
    """
    a = a.swapaxes(-1, -2)
    if a.dtype == jnp.bfloat16:
        row_major = Layout(tuple(range(a.ndim)))
        a = with_layout_constraint(lax.optimization_barrier(a), row_major)
        a = lax.optimization_barrier(a)
    return matmul(a, b)


def contract(a: Array, b: Array, axis: int) -> Array:
    """Contracts one axis of both matrices."""
    return summed(lax.dot_general, a, b, (((axis,), (axis,)), ((), ())))

"""Products of many rows with a matrix, as convolutions need them on CPU."""

import jax
from jax import lax

from jaxproto.types import Array


@jax.custom_vjp
def product(x: Array, matrix: Array) -> Array:
    """x [R, N] times a matrix [N, N']; its gradient has the smaller operand first.

    The library that XLA calls for a product over rows copies its first operand much
    more slowly than its second, and a transpose of the result is cheap: two to three
    times faster at 8,192 rows, 96 inputs and 24 outputs (benchmarks/RESULTS.md).
    """
    return x @ matrix


def forward(x, matrix):
    """Keeps both operands."""
    return x @ matrix, (x, matrix)


def backward(kept, grad):
    """Gradients of the rows and of the matrix."""
    x, matrix = kept
    return grad @ matrix.T, over_rows(x, grad)


product.defvjp(forward, backward)


def over_rows(x: Array, grad: Array) -> Array:
    """x [R, N] transposed times grad [R, N'].

    The barrier keeps XLA from turning the product round again.
    """
    (rows, inputs), outputs = x.shape, grad.shape[1]
    if rows >= 4 * outputs and 2 * inputs >= 3 * outputs:
        return lax.optimization_barrier(grad.T @ x).T
    return x.T @ grad

"""Products of rows with a matrix, for convolutions on CPU.

Of three products - rows times matrix and the two gradients - XLA's libraries run some
faster with operands and result turned round. Left alone XLA turns them back, so a
barrier stands behind those (times: benchmarks/RESULTS.md).
"""

import functools
import operator

import jax
from jax import lax

from jaxproto.types import Array

FEWEST, LARGE = 16, 2**17  # rows and elements of a matrix for `grad_of_few`
FEW = 64  # rows below which a gradient is made from the matrix as first operand


@jax.custom_vjp
def product(x: Array, matrix: Array) -> Array:
    """Multiplies x [R, N] by a matrix [N, N'], with faster gradients."""
    return x @ matrix


def forward(x, matrix):
    """Keeps both operands."""
    return x @ matrix, (x, matrix)


def backward(kept, grad):
    """Computes the gradients of the rows and of the matrix.

    Of a few rows and a large matrix, the gradient of the matrix is written as a sum of
    products of vectors: XLA makes it where it is added to the matrix, and never writes
    it. It comes after that of the rows, which reads the matrix before it changes.
    """
    x, matrix = kept
    rows = grad_rows(grad, matrix)
    if len(x) > FEWEST or matrix.size < LARGE:
        return rows, grad_matrix(x, grad)
    rows, x, grad = lax.optimization_barrier((rows, x, grad))
    return rows, grad_of_few(x, grad)


def grad_of_few(x: Array, grad: Array) -> Array:
    """Computes `grad_matrix` as a sum over rows of outer products."""
    parts = (a[:, None] * b for a, b in zip(x, grad, strict=True))
    return functools.reduce(operator.add, parts)


product.defvjp(forward, backward)


def grad_rows(grad: Array, matrix: Array) -> Array:
    """Multiplies grad [R, N'] by the transpose of a matrix [N, N'].

    The second operand is copied before the product: for a few rows that takes longer
    than the product.
    """
    if len(grad) < FEW:
        return lax.optimization_barrier(contract(matrix, grad, 1)).T
    return contract(grad, matrix, 1)


def grad_matrix(x: Array, grad: Array) -> Array:
    """Multiplies the transpose of x [R, N] by grad [R, N'].

    A sum over rows copies its first operand more slowly than its second, so the
    narrower one comes first, unless the result is too large to be turned.
    """
    (rows, inputs), outputs = x.shape, grad.shape[1]
    if rows >= 4 * outputs and 2 * inputs >= 3 * outputs:
        return lax.optimization_barrier(contract(grad, x, 0)).T
    return contract(x, grad, 0)


def contract(a: Array, b: Array, axis: int) -> Array:
    """Contracts one axis of both matrices."""
    return lax.dot_general(a, b, (((axis,), (axis,)), ((), ())))

"""Batch normalisation as PyTorch defines it."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.nn import reduce
from jaxproto.types import Array

EPS = 1e-5
MOMENTUM = 0.1  # of the new value: PyTorch's convention


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def batch_norm(
    x: Array,
    scale: Array,
    bias: Array,
    sums: Callable = reduce.channel_sums,
    eps: float = EPS,
) -> tuple[Array, Array, Array]:
    """Normalises x [..., C] with its own mean and biased variance.

    The mean and variance that come back have no gradient of their own: they are for
    `update_stats`. The gradient is written out because XLA's own needs twice the
    passes over x.

    Args:
      x: [..., C].
      scale, bias: [C].
      sums: arrays -> their sums per channel, in the platform's form.
      eps: added to the variance.

    Returns:
      Normalised x, and the batch's mean [C] and biased variance [C].
    """
    return normalise(x, scale, bias, sums, eps)[:3]


def normalise(x, scale, bias, sums, eps):
    """As batch_norm, and what the gradient needs."""
    n = x.size // x.shape[-1]
    mean = sums(x)[0] / n  # its rounding is made good below, in the same pass
    rest, square = sums(x - mean, jnp.square(x - mean))
    var = square / n - jnp.square(rest / n)
    rsd = lax.rsqrt(var + eps)
    return (x - mean) * (rsd * scale) + bias, mean, var, rsd


def batch_norm_forward(x, scale, bias, sums, eps):
    """Keeps the input and two vectors, not the normalised input."""
    out, mean, var, rsd = normalise(x, scale, bias, sums, eps)
    return (out, mean, var), (x, scale, mean, rsd)


def batch_norm_backward(sums, eps, kept, grads):
    """Gradients with respect to x, scale and bias."""
    del eps
    x, scale, mean, rsd = kept
    grad = grads[0]
    n, centred = x.size // x.shape[-1], x - mean
    grad_bias, grad_scale = sums(grad, grad * centred)
    grad_scale = grad_scale * rsd
    inner = grad - grad_bias / n - centred * (rsd * grad_scale / n)
    return inner * (rsd * scale), grad_scale, grad_bias


batch_norm.defvjp(batch_norm_forward, batch_norm_backward)


@functools.partial(jax.jit, static_argnames="sums")
def with_batch(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, sums: Callable
) -> tuple[Array, Array, Array]:
    """x [..., C] normalised by itself, and the running statistics after it."""
    out, own_mean, own_var = batch_norm(x, scale, bias, sums)
    elements = x.size // x.shape[-1]
    return out, *update_stats(mean, var, own_mean, own_var, elements)


@jax.jit
def with_stats(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, eps: float = EPS
) -> Array:
    """Normalises x [..., C] with given statistics."""
    return (x - mean) * (lax.rsqrt(var + eps) * scale) + bias


def update_stats(
    old_mean: Array, old_var: Array, mean: Array, var: Array, n: int
) -> tuple[Array, Array]:
    """Running statistics after a batch of n elements per channel.

    The running variance takes the unbiased one, n / (n - 1) times the batch's; for
    n = 1, which PyTorch refuses, the biased one (zero) as it is.
    """
    unbiased = var * (n / max(n - 1, 1))
    new_mean = (1 - MOMENTUM) * old_mean + MOMENTUM * mean
    return new_mean, (1 - MOMENTUM) * old_var + MOMENTUM * unbiased

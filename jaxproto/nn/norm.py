"""Batch normalisation as PyTorch defines it."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.types import Array

EPS = 1e-5
MOMENTUM = 0.1  # of the new value: PyTorch's convention


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def batch_norm(
    x: Array, scale: Array, bias: Array, eps: float = EPS
) -> tuple[Array, Array, Array]:
    """Normalises x [..., C] with its own mean and biased variance.

    The mean and variance that come back have no gradient of their own: they are for
    `update_stats`. The gradient is written out because XLA's own needs twice the
    passes over x.

    Returns:
      Normalised x, and the batch's mean [C] and biased variance [C].
    """
    return normalise(x, scale, bias, eps)[:3]


def normalise(x, scale, bias, eps):
    """As batch_norm, and what the gradient needs."""
    over = tuple(range(x.ndim - 1))
    mean = jnp.mean(x, over)
    var = jnp.mean(jnp.square(x - mean), over)
    rsd = lax.rsqrt(var + eps)
    return (x - mean) * (rsd * scale) + bias, mean, var, rsd


def batch_norm_forward(x, scale, bias, eps):
    """Keeps the input and two vectors, not the normalised input."""
    out, mean, var, rsd = normalise(x, scale, bias, eps)
    return (out, mean, var), (x, scale, mean, rsd)


def batch_norm_backward(eps, kept, grads):
    """Gradients with respect to x, scale and bias."""
    del eps
    x, scale, mean, rsd = kept
    grad = grads[0]
    over, n = tuple(range(x.ndim - 1)), x.size // x.shape[-1]
    centred = x - mean
    grad_bias = jnp.sum(grad, over)
    grad_scale = jnp.sum(grad * centred, over) * rsd
    inner = grad - grad_bias / n - centred * (rsd * grad_scale / n)
    return inner * (rsd * scale), grad_scale, grad_bias


batch_norm.defvjp(batch_norm_forward, batch_norm_backward)


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

"""Batch normalisation as PyTorch defines it."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.models.ops import channel_sums
from jaxproto.types import Array

EPS = 1e-5
MOMENTUM = 0.1  # of the new value: PyTorch's convention


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def batch_norm(
    x: Array,
    scale: Array,
    bias: Array,
    near: Array | float = 0.0,
    sums: channel_sums.Sums = channel_sums.PLAIN,
    eps: float = EPS,
) -> tuple[Array, Array, Array]:
    """Normalises x [..., C] with its own mean and biased variance.

    The mean and variance that come back have no gradient of their own: they are for
    `update_stats`. The gradient is written out because XLA's own needs twice the
    passes over x.

    Args:
      x: [..., C].
      scale, bias: [C].
      near: [C] or a number, for `moments`; it has no gradient.
      sums: the platform's form.
      eps: added to the variance.

    Returns:
      Normalised x, and the batch's mean [C] and biased variance [C].
    """
    return normalise(x, scale, bias, near, sums, eps)[:3]


def normalise(x, scale, bias, near, sums, eps):
    """Computes `batch_norm`, and the values for its gradient."""
    mean, var = moments(x, near, sums)
    rsd = lax.rsqrt(var + eps)
    return (x - mean) * (rsd * scale) + bias, mean, var, rsd


def moments(
    x: Array, near: Array | float, sums: channel_sums.Sums
) -> tuple[Array, Array]:
    """Computes mean and biased variance of x [..., C] per channel.

    In two passes the mean comes first. One pass sums x and its square while x is
    computed. It loses as many digits as the mean's square has more than the variance,
    so both sums are of x minus `near`, such as the running mean.

    Args:
      near: close to the mean; two passes need none.
    """
    n = x.size // x.shape[-1]
    if sums.passes == 1:
        first, square = sums.channels(x - near, jnp.square(x - near))
        mean = near + first / n
        return mean, jnp.maximum(square / n - jnp.square(first / n), 0)
    mean = sums.channels(x)[0] / n  # its rounding is made good below, in the same pass
    rest, square = sums.channels(x - mean, jnp.square(x - mean))
    return mean, square / n - jnp.square(rest / n)


def batch_norm_forward(x, scale, bias, near, sums, eps):
    """Keeps the input and two vectors, not the normalised input."""
    out, mean, var, rsd = normalise(x, scale, bias, near, sums, eps)
    return (out, mean, var), (x, scale, mean, rsd)


def batch_norm_backward(sums, eps, kept, grads):
    """Computes the gradients for x, scale and bias; none for `near`."""
    x, scale, mean, rsd = kept
    grad = grads[0]
    n, centred = x.size // x.shape[-1], x - mean
    grad_bias, grad_scale = sums.channels(grad, grad * centred)
    grad_scale = grad_scale * rsd
    inner = grad - grad_bias / n - centred * (rsd * grad_scale / n)
    return inner * (rsd * scale), grad_scale, grad_bias, None


batch_norm.defvjp(batch_norm_forward, batch_norm_backward)


@functools.partial(jax.jit, static_argnames=("sums", "eps"))
def with_batch(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    var: Array,
    sums: channel_sums.Sums,
    *,
    eps: float = EPS,
) -> tuple[Array, Array, Array]:
    """Normalises x [..., C] by itself, and updates the running statistics."""
    out, own_mean, own_var = batch_norm(x, scale, bias, mean, sums, eps)
    elements = x.size // x.shape[-1]
    return out, *update_stats(mean, var, own_mean, own_var, elements)


@functools.partial(jax.jit, static_argnames="eps")
def with_stats(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, eps: float = EPS
) -> Array:
    """Normalises x [..., C] with given statistics."""
    return (x - mean) * (lax.rsqrt(var + eps) * scale) + bias


def update_stats(
    old_mean: Array, old_var: Array, mean: Array, var: Array, n: int
) -> tuple[Array, Array]:
    """Updates running statistics by a batch of n elements per channel.

    The running variance takes the unbiased one, n / (n - 1) times the batch's; for
    n = 1, which PyTorch refuses, the biased one (zero) as it is.
    """
    unbiased = var * (n / max(n - 1, 1))
    new_mean = (1 - MOMENTUM) * old_mean + MOMENTUM * mean
    return new_mean, (1 - MOMENTUM) * old_var + MOMENTUM * unbiased

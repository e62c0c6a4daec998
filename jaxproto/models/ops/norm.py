"""Batch normalisation as PyTorch defines it."""

import functools

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.core.types import Array
from jaxproto.models.ops import channel_sums

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

    No gradient passes through the returned mean and variance, which serve
    `update_stats`. The gradient is written out because XLA's own needs twice the passes
    over x.

    Args:
      x: [..., C].
      scale, bias: [C].
      near: Estimate of the mean, [C] or a number, for `moments`; it has no gradient.
      sums: Form of the sums on the platform.
      eps: Number added to the variance.

    Returns:
      Normalised x, and the batch's mean [C] and biased variance [C].
    """
    return normalise(x, scale, bias, near, sums, eps)[:3]


def normalise(x, scale, bias, near, sums, eps):
    """Returns normalised x, mean, variance and reciprocal standard deviation."""
    mean, var = moments(x, near, sums)
    rsd = lax.rsqrt(var + eps)
    return (x - mean) * (rsd * scale) + bias, mean, var, rsd


def moments(
    x: Array, near: Array | float, sums: channel_sums.Sums
) -> tuple[Array, Array]:
    """Computes mean and biased variance of x [..., C] per channel.

    Two passes compute the mean first. One pass sums x and its square while x is
    computed. It loses digits where the square of the mean is larger than the variance,
    so it subtracts `near`, such as the running mean, from x.

    Args:
      near: Estimate of the mean, [C] or a number; two passes ignore it.
      sums: Form of the sums, with the number of passes.
    """
    n = x.size // x.shape[-1]
    if sums.passes == 1:
        first, square = sums.channels(x - near, jnp.square(x - near))
        mean = near + first / n
        return mean, jnp.maximum(square / n - jnp.square(first / n), 0)
    mean = sums.channels(x)[0] / n  # the second pass corrects its rounding error
    rest, square = sums.channels(x - mean, jnp.square(x - mean))
    return mean, square / n - jnp.square(rest / n)


def batch_norm_forward(x, scale, bias, near, sums, eps):
    """Returns `batch_norm`; keeps x, not the normalised x, for its gradient."""
    out, mean, var, rsd = normalise(x, scale, bias, near, sums, eps)
    return (out, mean, var), (x, scale, mean, rsd)


def batch_norm_backward(sums, eps, kept, grads):
    """Computes the gradients of x, scale and bias; `near` has none."""
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
    """Normalises x [..., C] by its own statistics; updates the running ones."""
    out, own_mean, own_var = batch_norm(x, scale, bias, mean, sums, eps)
    elements = x.size // x.shape[-1]
    return out, *update_stats(mean, var, own_mean, own_var, elements)


@functools.partial(jax.jit, static_argnames="eps")
def with_stats(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, eps: float = EPS
) -> Array:
    """Normalises x [..., C] by the given mean and variance."""
    return (x - mean) * (lax.rsqrt(var + eps) * scale) + bias


def update_stats(
    old_mean: Array, old_var: Array, mean: Array, var: Array, n: int
) -> tuple[Array, Array]:
    """Updates running statistics by a batch of n elements per channel.

    The running variance takes the unbiased one, n / (n - 1) times `var`. For n = 1,
    which PyTorch refuses, it takes the biased one, which is zero.
    """
    unbiased = var * (n / max(n - 1, 1))
    new_mean = (1 - MOMENTUM) * old_mean + MOMENTUM * mean
    return new_mean, (1 - MOMENTUM) * old_var + MOMENTUM * unbiased

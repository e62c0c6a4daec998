"""Attention, normalisation and perceptron of transformers, as PyTorch has them.

Vaswani et al., "Attention Is All You Need", NeurIPS 2017,
https://arxiv.org/abs/1706.03762.
"""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from jaxproto.core.types import Array
from jaxproto.models.dropout import dropout
from jaxproto.models.layers import CallContext, InitialDraws, Linear, zeros
from jaxproto.models.ops import at_least_single


def xavier_uniform(draws: InitialDraws, shape: tuple[int, ...], fan_in: int) -> Array:
    """Draws Glorot's uniform values for a matrix [inputs, outputs]."""
    return draws.uniform(shape) * math.sqrt(6 / sum(shape))


def by_row(layer: Callable, x: Array, call: CallContext) -> Array:
    """Applies linear layers to the last axis of [..., inputs]."""
    return layer(x.reshape(-1, x.shape[-1]), call).reshape(*x.shape[:-1], -1)


class LayerNorm(nnx.Module):
    """Normalisation of the last axis."""

    def __init__(self, width: int, eps: float):
        self.eps = eps
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [..., width] to [..., width]."""
        single = at_least_single(x)
        centred = single - jnp.mean(single, -1, keepdims=True)
        variance = jnp.mean(jnp.square(centred), -1, keepdims=True)
        normalised = centred * lax.rsqrt(variance + self.eps)
        return (normalised * self.scale[...] + self.bias[...]).astype(x.dtype)


class Attention(nnx.Module):
    """Self-attention of several heads (PyTorch's MultiheadAttention)."""

    def __init__(self, width: int, heads: int, draws: InitialDraws):
        self.heads = heads
        weight = xavier_uniform(draws, (width, 3 * width), width)
        self.in_proj_weight = nnx.Param(weight)
        self.in_proj_bias = nnx.Param(jnp.zeros(3 * width))
        self.out_proj = Linear(width, width, draws, bias_init=zeros)

    def __call__(
        self, x: Array, call: CallContext, mask: Array | None = None, rate: float = 0.0
    ) -> Array:
        """Maps [B, L, width] to [B, L, width].

        Args:
          x: Vectors of the positions [B, L, width].
          mask: Positions that are attended to [B, L]; None is all.
          rate: Dropout rate of the attention weights.
        """
        batch, length, width = x.shape
        weight = self.in_proj_weight[...].astype(x.dtype)
        qkv = call.ops.product(x.reshape(-1, width), weight)
        qkv = qkv + self.in_proj_bias[...].astype(x.dtype)
        qkv = qkv.reshape(batch, length, 3, self.heads, -1)
        query, key, value = (qkv[:, :, i] for i in range(3))
        score = jnp.einsum("bqhd,bkhd->bhqk", query, key)
        score = at_least_single(score) / math.sqrt(query.shape[-1])
        if mask is not None:
            score = jnp.where(mask[:, None, None], score, -jnp.inf)
        attention = dropout(jax.nn.softmax(score), rate, call).astype(x.dtype)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", attention, value)
        return by_row(self.out_proj, mixed.reshape(x.shape), call)

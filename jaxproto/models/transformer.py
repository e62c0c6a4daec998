"""Transformer encoder on texts, given as tokens [B, L].

Vaswani et al., "Attention Is All You Need", NeurIPS 2017,
https://arxiv.org/abs/1706.03762. Sizes, names and initial values: HtFLlib of 2024-04-04
(39a427d); the features are those of a class token before the text.

Deviations:
  code: padding is attended to, and has a vector that is trained; all layers start from
    one draw. Here: padding changes nothing, and each layer has its own draw.
  later code: feed-forward layers of 2,048 units, dropout of 0.1, word vectors times the
    root of their width, and the first word of a text as the class token.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.errors import UserError
from jaxproto.models.attention import Attention, LayerNorm, by_row
from jaxproto.models.dropout import dropout
from jaxproto.models.layers import CallContext, Chain, InitialDraws, Linear
from jaxproto.models.ops import Ops
from jaxproto.models.text import CLEAN, Embedding, TextSettings, embed, network

RATE = 0.5  # of dropout
EPS = 1e-5  # of normalisation


class EncoderLayer(nnx.Module):
    """Attention and perceptron, each beside a shortcut and before a normalisation."""

    def __init__(self, width: int, heads: int, draws: InitialDraws):
        self.self_attn = Attention(width, heads, draws)
        self.linear1, self.linear2 = (Linear(width, width, draws) for _ in range(2))
        self.norm1, self.norm2 = LayerNorm(width, EPS), LayerNorm(width, EPS)

    def __call__(self, x: Array, mask: Array, call: CallContext) -> Array:
        """Maps [B, L, width] to [B, L, width]; `mask` [B, L]: positions attended to."""
        y = self.self_attn(x, call, mask, RATE)
        x = self.norm1(x + dropout(y, RATE, call), call)
        y = dropout(jax.nn.relu(by_row(self.linear1, x, call)), RATE, call)
        y = dropout(by_row(self.linear2, y, call), RATE, call)
        return self.norm2(x + y, call)


class Encoder(nnx.Module):
    """Chain of encoder layers."""

    def __init__(self, width: int, layers: int, heads: int, draws: InitialDraws):
        self.layers = Chain(*(EncoderLayer(width, heads, draws) for _ in range(layers)))

    def __call__(self, x: Array, mask: Array, call: CallContext) -> Array:
        """Maps [B, L, width] to [B, L, width]."""
        for i in range(self.layers.length):
            x = getattr(self.layers, str(i))(x, mask, call)
        return x


class Transformer(nnx.Module):
    """Encoder of a class token and the word vectors with their positions."""

    def __init__(
        self, text: TextSettings, draws: InitialDraws, *, layers: int, heads: int
    ):
        self.text = text
        self.embedding = Embedding(text, draws, lambda d, shape: 0.1 * d.uniform(shape))
        self.class_token = nnx.Param(jnp.zeros((1, 1, text.width)))
        self.encoder = Encoder(text.width, layers, heads, draws)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, L] to [B, width]."""
        length = jnp.max(jnp.sum(self.text.counts(x), 1))
        return self.text.features(
            call.ops.cut(lambda x: self.encode(x, call), x, length)
        )

    def encode(self, x, call):
        """Returns the class token after all layers [B, width]."""
        words = embed(self.embedding.table[...], x, self.text.dtype)
        position = jnp.asarray(positions(*words.shape[1:]), words.dtype)
        words = dropout(words + position, RATE, call)
        token = self.class_token[...].astype(words.dtype)
        token = jnp.broadcast_to(token, (len(x), 1, words.shape[-1]))
        x, mask = jnp.concatenate([token, words], 1), self.text.counts(x)
        mask = jnp.pad(mask, ((0, 0), (1, 0)), constant_values=True)
        return self.encoder(x, mask, call)[:, 0]


def positions(length: int, width: int) -> np.ndarray:
    """Returns the encoding of positions, sines and cosines in turn [length, width]."""
    rate = 10_000 ** (-np.arange(0, width, 2) / width)
    angle = np.arange(length)[:, None] * rate
    pairs = np.stack([np.sin(angle), np.cos(angle)], -1)
    return pairs.reshape(length, -1)[:, :width]


def transformer(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    vocab_size: int,
    compute_dtype: str = "float32",
    layers: int = 2,
    heads: int = 8,
) -> Net:
    """Transformer encoder whose width is the number of features."""
    if feat_dim % heads:
        near = heads * max(1, round(feat_dim / heads))
        raise UserError(
            f"network 'transformer' divides its features among heads={heads}, but "
            f"feat_dim is {feat_dim}. Set model.feat_dim to a multiple of {heads} "
            f"such as {near}, or choose other heads, such as transformer+heads=1.",
            advice=[{"model.feat_dim": near}, {"model.group": "transformer+heads=1"}],
        )
    make = functools.partial(Transformer, layers=layers, heads=heads)
    options: dict[str, Any] = {"vocab_size": vocab_size, "compute_dtype": compute_dtype}
    return network(make, CLEAN, input_shape, num_classes, feat_dim, ops, **options)

"""Vision transformers of base size: ViT-B/16 and ViT-B/32.

Structure, names and initial values as in torchvision. Dosovitskiy et al., "An Image is
Worth 16x16 Words", ICLR 2021, https://arxiv.org/abs/2010.11929. The head has a hidden
layer of 768 with tanh, as in HtFLlib and in the paper's pre-training.
"""

import functools
import math
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.errors import UserError
from jaxproto.models.attention import Attention, LayerNorm, by_row, xavier_uniform
from jaxproto.models.from_modules import image_shape, make_net
from jaxproto.models.layers import (
    CallContext,
    Chain,
    Conv,
    InitialDraws,
    Linear,
    identity,
    zeros,
)
from jaxproto.models.ops import Ops

WIDTH, HEADS, LAYERS, HIDDEN = 768, 12, 12, 3072  # the paper's Table 1: Base
EPS = 1e-6  # of normalisation


def lecun_normal(draws: InitialDraws, shape: tuple[int, ...], fan_in: int) -> Array:
    """Draws normal values with variance 1 / fan_in."""
    return draws.normal(shape) / math.sqrt(fan_in)


def tiny_normal(draws: InitialDraws, shape: tuple[int, ...], fan_in: int) -> Array:
    """Draws normal values with standard deviation 1e-6, as torchvision's biases."""
    return 1e-6 * draws.normal(shape)


def gelu(x: Array, call: CallContext) -> Array:
    """Returns x times the standard normal distribution function at x."""
    return jax.nn.gelu(x, approximate=False)


class EncoderBlock(nnx.Module):
    """Attention and perceptron, each after a normalisation and beside a shortcut."""

    def __init__(self, draws: InitialDraws):
        self.ln_1, self.ln_2 = LayerNorm(WIDTH, EPS), LayerNorm(WIDTH, EPS)
        self.self_attention = Attention(WIDTH, HEADS, draws)
        inits: dict[str, Any] = {"init": xavier_uniform, "bias_init": tiny_normal}
        first = Linear(WIDTH, HIDDEN, draws, **inits)
        second = Linear(HIDDEN, WIDTH, draws, **inits)
        # the identity stands for torchvision's dropout, as names are positions
        self.mlp = Chain(first, gelu, identity, second)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, L, width] to [B, L, width]."""
        x = x + self.self_attention(self.ln_1(x, call), call)
        return x + by_row(self.mlp, self.ln_2(x, call), call)


class Encoder(nnx.Module):
    """Positions, blocks and the last normalisation."""

    def __init__(self, length: int, draws: InitialDraws):
        self.pos_embedding = nnx.Param(0.02 * draws.normal((1, length, WIDTH)))
        self.layers = nnx.Module()
        for i in range(LAYERS):
            setattr(self.layers, f"encoder_layer_{i}", EncoderBlock(draws))
        self.ln = LayerNorm(WIDTH, EPS)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, L, width] to [B, L, width]."""
        x = x + self.pos_embedding[...].astype(x.dtype)
        for i in range(LAYERS):
            x = getattr(self.layers, f"encoder_layer_{i}")(x, call)
        return self.ln(x, call)


class VisionTransformer(nnx.Module):
    """Patches and a class token through the encoder; features are the token's."""

    def __init__(self, patch: int, shape: tuple[int, int, int], draws: InitialDraws):
        options: dict[str, Any] = {"init": lecun_normal, "bias_init": zeros}
        options |= {"stride": patch, "bias": True}
        self.conv_proj = Conv(shape[-1], WIDTH, patch, draws, **options)
        self.class_token = nnx.Param(jnp.zeros((1, 1, WIDTH)))
        length = (shape[0] // patch) * (shape[1] // patch) + 1
        self.encoder = Encoder(length, draws)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, channels] to [B, 768]."""
        x = self.conv_proj(x, call).reshape(len(x), -1, WIDTH)
        token = self.class_token[...].astype(x.dtype)
        token = jnp.broadcast_to(token, (len(x), 1, WIDTH))
        return self.encoder(jnp.concatenate([token, x], 1), call)[:, 0]


def vit_b(
    patch: int,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    head: tuple[int, ...] = (WIDTH,),
) -> Net:
    """Base vision transformer; `head` has the widths of hidden head layers."""
    shape = image_shape(f"vit_b_{patch}", input_shape)
    if any(n % patch for n in shape[:2]):
        pixels = patch * max(1, round(max(shape[:2]) / patch))
        raise UserError(
            f"network 'vit_b_{patch}' cuts images into patches of {patch}x{patch} "
            f"pixels, but an image has {shape[0]}x{shape[1]}. Set data.pixels to a "
            f"multiple of {patch}, such as {pixels}.",
            advice=[{"data.pixels": pixels}],
        )
    body = functools.partial(VisionTransformer, patch, shape)
    return make_net(body, num_classes, feat_dim, ops, hidden=head, activation=jnp.tanh)


vit_b_16, vit_b_32 = (functools.partial(vit_b, patch) for patch in (16, 32))

"""Perceptrons: a light one for any input, and the spiral network of ProtoNorm."""

import itertools
import math
from functools import partial

import jax
from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.errors import UserError
from jaxproto.models.from_modules import make_net
from jaxproto.models.layers import (
    CallContext,
    Chain,
    InitialDraws,
    Linear,
    flatten,
    relu,
)
from jaxproto.models.ops import Ops


class Perceptron(nnx.Module):
    """Linear layers `fc1`, `fc2`, ... with ReLU between them."""

    def __init__(self, widths: tuple[int, ...], last_relu: bool, draws: InitialDraws):
        self.depth, self.last_relu = len(widths) - 1, last_relu
        for i, pair in enumerate(itertools.pairwise(widths), 1):
            setattr(self, f"fc{i}", Linear(*pair, draws))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, ...] to [B, last width]."""
        x = flatten(x) if x.ndim == 4 else x.reshape(len(x), -1)
        for i in range(1, self.depth + 1):
            x = getattr(self, f"fc{i}")(x, call)
            if i < self.depth or self.last_relu:
                x = jax.nn.relu(x)
        return x


class AmazonMLP(nnx.Module):
    """Linear layers with ReLU behind each."""

    def __init__(self, widths: tuple[int, ...], draws: InitialDraws):
        layers = (Linear(*pair, draws) for pair in itertools.pairwise(widths))
        self.encoder = Chain(*(part for layer in layers for part in (layer, relu)))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, ...] to [B, last width]."""
        return self.encoder(x.reshape(len(x), -1), call)


def mlp(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
) -> Net:
    """Two hidden layers of 256 with ReLU, for any input.

    No paper uses it; the group `digits` has it.
    """
    widths = (math.prod(input_shape), 256, 256)
    return make_net(partial(Perceptron, widths, True), num_classes, feat_dim, ops)


def amazon_mlp(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    hidden: tuple[int, ...] = (),
) -> Net:
    """HtFLlib's perceptron for the Amazon reviews: `hidden` layers and one of 100."""
    widths = (math.prod(input_shape), *hidden, 100)
    return make_net(partial(AmazonMLP, widths), num_classes, feat_dim, ops)


def spiral_mlp(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
) -> Net:
    """The 5-layer network 2-16-8-4-2-C of ProtoNorm's spiral: 242 parameters at C = 6.

    ReLU follows the first three layers only: on the two features it would confine the
    prototypes to a quadrant, contrary to ProtoNorm's Figure 2. The head has no bias.
    """
    if tuple(input_shape) != (2,):
        raise UserError(
            f"network 'spiral_mlp' takes inputs of shape (2,), not {input_shape}. "
            "Use it with data 'spiral', or another network."
        )
    if feat_dim != 2:
        raise UserError(
            f"network 'spiral_mlp' has 2 features, but feat_dim is {feat_dim}. "
            "Set model.feat_dim to 2.",
            advice=[{"model.feat_dim": 2}],
        )
    body = partial(Perceptron, (2, 16, 8, 4, 2), False)
    return make_net(body, num_classes, feat_dim, ops, head_bias=False)

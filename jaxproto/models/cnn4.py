"""The 4-layer CNN of the field (PFLlib's FedAvgCNN) for any image size."""

from functools import partial

import jax
from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.errors import UserError
from jaxproto.models.from_modules import image_shape, make_net
from jaxproto.models.layers import (
    CallContext,
    Chain,
    Conv,
    InitialDraws,
    Linear,
    flatten,
    kaiming_uniform,
)
from jaxproto.models.ops import Ops

SMALLEST = 16  # pixels a side from which two unpadded 5x5 convolutions and poolings fit


class FedAvgCNN(nnx.Module):
    """Two 5x5 convolutions with ReLU and 2x2 max pooling, one hidden linear layer."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        hidden: int,
        padding: int,
        draws: InitialDraws,
    ):
        init = kaiming_uniform
        conv1 = Conv(shape[-1], 32, 5, draws, padding=padding, bias=True, init=init)
        conv2 = Conv(32, 64, 5, draws, padding=padding, bias=True, init=init)
        self.conv1, self.conv2 = Chain(conv1), Chain(conv2)
        rows, cols = (map_size(n, padding) for n in shape[:2])
        self.fc1 = Chain(Linear(rows * cols * 64, hidden, draws))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, C] to [B, hidden]."""
        for conv in (self.conv1, self.conv2):
            x = call.ops.max_pool(jax.nn.relu(conv(x, call)), 2, 2)
        return jax.nn.relu(self.fc1(flatten(x), call))


def map_size(pixels: int, padding: int) -> int:
    """Returns the rows or columns that both convolutions and poolings leave."""
    for _ in range(2):
        pixels = (pixels + 2 * padding - 4) // 2
    return pixels


def cnn4(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    hidden: int = 512,
    head: tuple[int, ...] = (),
) -> Net:
    """FedAvgCNN with a hidden layer of `hidden` units: 512 in the released code.

    Convolutions have no padding, as released; on images under 16 pixels they have
    padding 2 (a deviation: two unpadded ones do not fit there). `head` has the widths
    of the head's hidden layers.
    """
    shape = image_shape("cnn4", input_shape)
    padding = 0 if min(shape[:2]) >= SMALLEST else 2
    if min(shape[:2]) < 4:
        raise UserError(
            f"network 'cnn4' needs images of at least 4x4 pixels, not {input_shape}. "
            "Use network 'mlp', or larger images."
        )
    body = partial(FedAvgCNN, shape, hidden, padding)
    return make_net(body, num_classes, feat_dim, ops, hidden=head)


def cnn4_d(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
) -> Net:
    """FedAvgCNN with feat_dim hidden units, as the papers' cost tables imply."""
    return cnn4(input_shape, num_classes, feat_dim, ops, hidden=feat_dim)

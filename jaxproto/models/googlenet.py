"""GoogLeNet with batch normalisation, without auxiliary classifiers.

Structure and names as in torchvision, whose third branch has 3x3 where the paper has
5x5. Szegedy et al., "Going Deeper with Convolutions", CVPR 2015,
https://arxiv.org/abs/1409.4842.

Deviations:
- dropout: at the end of the base in torchvision; here on the logits' path only, so that
  features and prototypes are clean.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.models.dropout import logits_only
from jaxproto.models.from_modules import image_shape, make_net
from jaxproto.models.layers import BatchNorm, CallContext, Chain, Conv, InitialDraws
from jaxproto.models.ops import Ops, global_mean

EPS = 0.001  # of batch normalisation
# The paper's Table 1: channels of the 1x1 branch, of both convolutions of the second
# and third branch, and of the branch after max pooling
INCEPTIONS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}
POOLS = {"3b": 3, "4e": 2}  # window of the max pooling after a block, with stride 2


def narrow_normal(draws: InitialDraws, shape: tuple[int, ...], fan_in: int) -> Array:
    """Draws normal values with standard deviation 0.01, as torchvision."""
    return 0.01 * draws.normal(shape)


class BasicConv2d(nnx.Module):
    """Convolution, normalisation, ReLU."""

    def __init__(
        self, inputs: int, outputs: int, size: int, draws: InitialDraws, stride: int = 1
    ):
        options: dict[str, Any] = {"padding": size // 2, "init": narrow_normal}
        self.conv = Conv(inputs, outputs, size, draws, stride=stride, **options)
        self.bn = BatchNorm(outputs, EPS)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H', W', outputs]."""
        return jax.nn.relu(self.bn(self.conv(x, call), call))


class Inception(nnx.Module):
    """Four branches, concatenated."""

    def __init__(self, inputs: int, widths: tuple[int, ...], draws: InitialDraws):
        one, reduced3, three, reduced5, five, pooled = widths
        self.branch1 = BasicConv2d(inputs, one, 1, draws)
        self.branch2 = Chain(
            BasicConv2d(inputs, reduced3, 1, draws),
            BasicConv2d(reduced3, three, 3, draws),
        )
        self.branch3 = Chain(
            BasicConv2d(inputs, reduced5, 1, draws),
            BasicConv2d(reduced5, five, 3, draws),
        )
        pool = BasicConv2d(inputs, pooled, 1, draws)
        self.branch4 = Chain(lambda x, call: call.ops.max_pool(x, 3, 1, 1), pool)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H, W, outputs of all branches]."""
        branches = self.branch1, self.branch2, self.branch3, self.branch4
        return jnp.concatenate([branch(x, call) for branch in branches], -1)


def max_pool_ceil(x: Array, size: int, call: CallContext) -> Array:
    """Pools with stride 2; last windows may reach beyond x (PyTorch's ceil_mode)."""
    steps = [max(-(-(n - size) // 2), 0) for n in x.shape[1:3]]
    missing = [2 * s + size - n for s, n in zip(steps, x.shape[1:3], strict=True)]
    padding = ((0, 0), *((0, n) for n in missing), (0, 0))
    x = jnp.pad(x, padding, constant_values=-jnp.inf)
    return call.ops.max_pool(x, size, 2)


class GoogLeNet(nnx.Module):
    """Stem, nine Inception blocks, mean over the image: features at least 0."""

    def __init__(self, channels: int, draws: InitialDraws):
        self.conv1 = BasicConv2d(channels, 64, 7, draws, stride=2)
        self.conv2 = BasicConv2d(64, 64, 1, draws)
        self.conv3 = BasicConv2d(64, 192, 3, draws)
        inputs = 192
        for name, widths in INCEPTIONS.items():
            setattr(self, f"inception{name}", Inception(inputs, widths, draws))
            inputs = sum(widths) - widths[1] - widths[3]

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, channels] to [B, 1024]."""
        x = max_pool_ceil(self.conv1(x, call), 3, call)
        x = self.conv3(self.conv2(x, call), call)
        x = max_pool_ceil(x, 3, call)
        for name in INCEPTIONS:
            x = getattr(self, f"inception{name}")(x, call)
            if name in POOLS:
                x = max_pool_ceil(x, POOLS[name], call)
        return global_mean(x)


def googlenet(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    head: tuple[int, ...] = (),
) -> Net:
    """GoogLeNet for images of any size; `head` has the widths of hidden head layers."""
    channels = image_shape("googlenet", input_shape)[-1]
    body = partial(GoogLeNet, channels)
    return make_net(body, num_classes, feat_dim, ops, hidden=head, place=logits_only)

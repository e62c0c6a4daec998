"""ShuffleNetV2, width 1.

Structure and names as in torchvision. Ma, Zhang, Zheng, Sun, "ShuffleNet V2: Practical
Guidelines for Efficient CNN Architecture Design", ECCV 2018,
https://arxiv.org/abs/1807.11164.
"""

from functools import partial
from typing import Any

import jax.numpy as jnp
from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.models.from_modules import image_shape, make_net
from jaxproto.models.layers import (
    BatchNorm,
    CallContext,
    Chain,
    Conv,
    InitialDraws,
    conv_norm,
    kaiming_uniform,
    relu,
)
from jaxproto.models.ops import Ops, global_mean

WIDTH = 1024
STAGES = ((116, 4), (232, 8), (464, 4))  # the paper's Table 5: channels, units


class ShuffleUnit(nnx.Module):
    """Unit in which half of the channels (all at stride 2) pass three convolutions."""

    def __init__(self, inputs: int, outputs: int, stride: int, draws: InitialDraws):
        half = outputs // 2
        branch_in = inputs // 2
        if stride == 2:
            branch_in = inputs
            self.branch1 = Chain(
                *depthwise(inputs, stride, draws), *pointwise(inputs, half, draws)
            )
        self.branch2 = Chain(
            *pointwise(branch_in, half, draws),
            *depthwise(half, stride, draws),
            *pointwise(half, half, draws),
        )

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H', W', outputs]."""
        if hasattr(self, "branch1"):
            return call.ops.shuffle(self.branch1(x, call), self.branch2(x, call))
        kept, used = jnp.split(x, 2, -1)
        return call.ops.shuffle(kept, self.branch2(used, call))


def pointwise(inputs: int, outputs: int, draws: InitialDraws) -> tuple:
    """Returns a 1x1 convolution, norm and ReLU, as members of a Chain."""
    conv = Conv(inputs, outputs, 1, draws, init=kaiming_uniform)
    return conv, BatchNorm(outputs), relu


def depthwise(width: int, stride: int, draws: InitialDraws) -> tuple:
    """Returns a depthwise 3x3 convolution and norm, as members of a Chain."""
    options: dict[str, Any] = {"padding": 1, "groups": width, "init": kaiming_uniform}
    return Conv(width, width, 3, draws, stride=stride, **options), BatchNorm(width)


class ShuffleNetV2(nnx.Module):
    """Stem, 16 units, 1x1 convolution with ReLU, mean: features at least 0."""

    def __init__(self, channels: int, draws: InitialDraws):
        options = {"init": kaiming_uniform}
        self.conv1 = conv_norm(channels, 24, 3, relu, draws, stride=2, **options)
        inputs = 24
        for n, (width, units) in enumerate(STAGES, 2):
            first = ShuffleUnit(inputs, width, 2, draws)
            rest = (ShuffleUnit(width, width, 1, draws) for _ in range(units - 1))
            setattr(self, f"stage{n}", Chain(first, *rest))
            inputs = width
        self.conv5 = conv_norm(inputs, WIDTH, 1, relu, draws, **options)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, channels] to [B, 1024]."""
        x = call.ops.max_pool(self.conv1(x, call), 3, 2, 1)
        for n in range(2, 2 + len(STAGES)):
            x = getattr(self, f"stage{n}")(x, call)
        return global_mean(self.conv5(x, call))


def shufflenet_v2_x1_0(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
) -> Net:
    """ShuffleNetV2 for images of any size."""
    channels = image_shape("shufflenet_v2_x1_0", input_shape)[-1]
    return make_net(partial(ShuffleNetV2, channels), num_classes, feat_dim, ops)

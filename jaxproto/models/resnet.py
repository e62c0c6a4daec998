"""Residual networks: ResNet-4, 6, 8, 10, 18, 34, 50, 101 and 152.

The first four in structure and names as in ProtoNorm's released code (`resnet8`):
torchvision's ImageNet stem is kept, stages have one block each. The others are
torchvision's. He, Zhang, Ren, Sun, "Deep Residual Learning
for Image Recognition", CVPR 2016, https://arxiv.org/abs/1512.03385.

`resnet18_gn` has GroupNorm of two groups in place of BatchNorm, as the released code of
FedNH; its stem is torchvision's, where FedNH's has a 3x3 convolution without pooling.
"""

import functools
from collections.abc import Callable

import jax
from flax import nnx

from jaxproto.models.from_modules import image_shape, make_net
from jaxproto.models.layers import (
    BatchNorm,
    CallContext,
    Chain,
    Conv,
    GroupNorm,
    InitialDraws,
)
from jaxproto.models.ops import Ops, global_mean
from jaxproto.types import Array, Net

WIDTHS = (64, 128, 256, 512)
Norm = Callable[[int], nnx.Module]  # channels -> what normalises them


class BasicBlock(nnx.Module):
    """Two 3x3 convolutions beside a shortcut; norms are named as `norms` says."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int,
        draws: InitialDraws,
        norms: tuple[str, str] = ("bn2", "bn3"),
        norm: Norm = BatchNorm,
    ):
        self.norms = norms
        self.conv1 = Conv(inputs, outputs, 3, draws, stride=stride, padding=1)
        self.conv2 = Conv(outputs, outputs, 3, draws, padding=1)
        for name in norms:
            setattr(self, name, norm(outputs))
        if stride != 1 or inputs != outputs:
            short = Conv(inputs, outputs, 1, draws, stride=stride)
            self.downsample = Chain(short, norm(outputs))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H', W', outputs]."""
        first, second = (getattr(self, name) for name in self.norms)
        short = self.downsample(x, call) if hasattr(self, "downsample") else x
        x = jax.nn.relu(first(self.conv1(x, call), call))
        return jax.nn.relu(second(self.conv2(x, call), call) + short)


class Bottleneck(nnx.Module):
    """1x1, 3x3 and 1x1 convolution beside a shortcut; the last widens fourfold."""

    def __init__(
        self, inputs: int, width: int, stride: int, draws: InitialDraws, norm: Norm
    ):
        outputs = 4 * width
        self.conv1, self.bn1 = Conv(inputs, width, 1, draws), norm(width)
        self.conv2 = Conv(width, width, 3, draws, stride=stride, padding=1)
        self.bn2 = norm(width)
        self.conv3, self.bn3 = Conv(width, outputs, 1, draws), norm(outputs)
        if stride != 1 or inputs != outputs:
            short = Conv(inputs, outputs, 1, draws, stride=stride)
            self.downsample = Chain(short, norm(outputs))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H', W', 4 * width]."""
        short = self.downsample(x, call) if hasattr(self, "downsample") else x
        x = jax.nn.relu(self.bn1(self.conv1(x, call), call))
        x = jax.nn.relu(self.bn2(self.conv2(x, call), call))
        return jax.nn.relu(self.bn3(self.conv3(x, call), call) + short)


basic = functools.partial(BasicBlock, norms=("bn1", "bn2"))
# Layers -> block, its outputs over its width, blocks of each stage
DEPTHS: dict[int, tuple[Callable[..., nnx.Module], int, tuple[int, ...]]] = {
    18: (basic, 1, (2, 2, 2, 2)),
    34: (basic, 1, (3, 4, 6, 3)),
    50: (Bottleneck, 4, (3, 4, 6, 3)),
    101: (Bottleneck, 4, (3, 4, 23, 3)),
    152: (Bottleneck, 4, (3, 8, 36, 3)),
}


class ResNet(nnx.Module):
    """Stem, one stage per width, mean over the image: features at least 0."""

    def __init__(
        self,
        channels: int,
        stages: dict[str, nnx.Module],
        draws: InitialDraws,
        norm: Norm = BatchNorm,
    ):
        self.conv1 = Conv(channels, 64, 7, draws, stride=2, padding=3)
        self.bn1 = norm(64)
        self.order = tuple(stages)
        for name, stage in stages.items():
            setattr(self, name, stage)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, channels] to [B, last width]."""
        x = jax.nn.relu(self.bn1(self.conv1(x, call), call))
        x = call.ops.max_pool(x, 3, 2, 1)
        for name in self.order:
            x = getattr(self, name)(x, call)
        return global_mean(x)


def torchvision_stages(depth: int, draws: InitialDraws, norm: Norm) -> dict:
    """Makes torchvision's `layer1` to `layer4`."""
    block, widening, counts = DEPTHS[depth]
    stages: dict[str, nnx.Module] = {}
    inputs = 64
    for i, (width, count) in enumerate(zip(WIDTHS, counts, strict=False)):
        stride, blocks = 1 if i == 0 else 2, list[nnx.Module]()
        for _ in range(count):
            blocks.append(block(inputs, width, stride, draws, norm=norm))
            stride, inputs = 1, widening * width
        stages[f"layer{i + 1}"] = Chain(*blocks)
    return stages


def small(
    blocks: int,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
) -> Net:
    """ResNet with `blocks` stages of one block (2 * blocks + 2 layers)."""
    channels = image_shape(f"resnet{2 * blocks + 2}", input_shape)[-1]

    def body(draws):
        inputs, stages = (64, *WIDTHS), dict[str, nnx.Module]()
        for i in range(blocks):  # all but the first halve the map
            stride = 1 if i == 0 else 2
            stages[f"layer_{i}"] = BasicBlock(inputs[i], WIDTHS[i], stride, draws)
        return ResNet(channels, stages, draws)

    return make_net(body, num_classes, feat_dim, ops)


resnet4, resnet6, resnet8, resnet10 = (functools.partial(small, n) for n in range(1, 5))


def torchvision(
    depth: int,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    norm: Norm = BatchNorm,
    head: tuple[int, ...] = (),
) -> Net:
    """torchvision's ResNet with its ImageNet stem; `head` has hidden layers' widths."""
    channels = image_shape(f"resnet{depth}", input_shape)[-1]

    def body(draws):
        return ResNet(channels, torchvision_stages(depth, draws, norm), draws, norm)

    return make_net(body, num_classes, feat_dim, ops, hidden=head)


resnet18, resnet34, resnet50, resnet101, resnet152 = (
    functools.partial(torchvision, depth) for depth in DEPTHS
)
resnet18_gn = functools.partial(resnet18, norm=GroupNorm)

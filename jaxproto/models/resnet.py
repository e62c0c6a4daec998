"""Residual networks: ResNet-4, 6, 8, 10, 18, 34, 50, 101 and 152.

The first four in structure and names as in ProtoNorm's released code (`resnet8`):
torchvision's ImageNet stem is kept, stages have one block each. The others are
torchvision's. He, Zhang, Ren, Sun, "Deep Residual Learning
for Image Recognition", CVPR 2016, https://arxiv.org/abs/1512.03385.

`resnet18_gn` has GroupNorm of two groups in place of BatchNorm, as the released code of
FedNH; its stem is torchvision's, where FedNH's has a 3x3 convolution without pooling.
"""

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

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


def alone(block: nnx.Module) -> nnx.Module:
    """Returns the one block of a stage."""
    return block


class Form(NamedTuple):
    """Blocks and stages of a residual network."""

    block: Callable[..., nnx.Module]
    counts: tuple[int, ...]  # blocks of each stage
    widening: int = 1  # outputs of a block over its width
    names: Sequence[str] = ("layer1", "layer2", "layer3", "layer4")  # of the stages
    stage: Callable[..., nnx.Module] = Chain  # its blocks -> stage


SMALL_NAMES = tuple(f"layer_{i}" for i in range(len(WIDTHS)))
basic = functools.partial(BasicBlock, norms=("bn1", "bn2"))
FORMS = {  # layers -> form
    4: Form(BasicBlock, (1,), names=SMALL_NAMES, stage=alone),
    6: Form(BasicBlock, (1, 1), names=SMALL_NAMES, stage=alone),
    8: Form(BasicBlock, (1, 1, 1), names=SMALL_NAMES, stage=alone),
    10: Form(BasicBlock, (1, 1, 1, 1), names=SMALL_NAMES, stage=alone),
    18: Form(basic, (2, 2, 2, 2)),
    34: Form(basic, (3, 4, 6, 3)),
    50: Form(Bottleneck, (3, 4, 6, 3), widening=4),
    101: Form(Bottleneck, (3, 4, 23, 3), widening=4),
    152: Form(Bottleneck, (3, 8, 36, 3), widening=4),
}


class ResNet(nnx.Module):
    """Stem, one stage per width, mean over the image: features at least 0."""

    def __init__(self, form: Form, norm: Norm, channels: int, draws: InitialDraws):
        stages = [*zip(form.names, WIDTHS, form.counts, strict=False)]
        self.order, inputs, stride = tuple(name for name, *_ in stages), 64, 1
        for name, width, count in stages:
            blocks: list[nnx.Module] = []
            for _ in range(count):
                blocks.append(form.block(inputs, width, stride, draws, norm=norm))
                stride, inputs = 1, form.widening * width
            setattr(self, name, form.stage(*blocks))
            stride = 2  # all stages but the first halve the map
        self.conv1 = Conv(channels, 64, 7, draws, stride=2, padding=3)
        self.bn1 = norm(64)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, channels] to [B, last width]."""
        x = jax.nn.relu(self.bn1(self.conv1(x, call), call))
        x = call.ops.max_pool(x, 3, 2, 1)
        for name in self.order:
            x = getattr(self, name)(x, call)
        return global_mean(x)


def resnet(
    depth: int,
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    norm: Norm = BatchNorm,
    head: tuple[int, ...] = (),
) -> Net:
    """ResNet with torchvision's ImageNet stem; `head`: widths of its hidden layers."""
    channels = image_shape(f"resnet{depth}", input_shape)[-1]
    body = functools.partial(ResNet, FORMS[depth], norm, channels)
    return make_net(body, num_classes, feat_dim, ops, hidden=head)


RESNETS = {f"resnet{depth}": functools.partial(resnet, depth) for depth in FORMS}
RESNETS["resnet18_gn"] = functools.partial(resnet, 18, norm=GroupNorm)

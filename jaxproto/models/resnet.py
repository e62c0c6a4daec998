"""Residual networks: ResNet-4, 6, 8, 10, 18, 34, 50, 101 and 152.

The first four have the structure and names of ProtoNorm's released code (`resnet8`):
torchvision's ImageNet stem, and stages of one block. The others are torchvision's. He,
Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016,
https://arxiv.org/abs/1512.03385.

`resnet18_gn` has GroupNorm of two groups in place of BatchNorm, as the released code of
FedNH; its stem is torchvision's, where FedNH's has a 3x3 convolution without pooling.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
from flax import nnx

from jaxproto.core.types import Array, Net
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

WIDTHS = (64, 128, 256, 512)
Norm = Callable[[int], nnx.Module]  # channels -> normalisation layer
Convs = tuple[tuple[int, int, int], ...]  # size, outputs and stride of each


def basic(width: int, stride: int) -> Convs:
    """Returns the convolutions of a basic block."""
    return (3, width, stride), (3, width, 1)


def bottleneck(width: int, stride: int) -> Convs:
    """Returns the convolutions of a bottleneck; the last widens fourfold."""
    return (1, width, 1), (3, width, stride), (1, 4 * width, 1)


class Block(nnx.Module):
    """Convolutions with a norm and ReLU each, beside a shortcut."""

    def __init__(
        self,
        inputs: int,
        convs: Convs,
        names: Sequence[str],
        norm: Norm,
        draws: InitialDraws,
    ):
        self.names, channels = names, inputs
        for i, (size, width, stride) in enumerate(convs):
            conv = Conv(channels, width, size, draws, stride=stride, padding=size // 2)
            setattr(self, f"conv{i + 1}", conv)
            setattr(self, names[i], norm(width))
            channels = width
        total_stride = math.prod(stride for *_, stride in convs)
        if total_stride != 1 or inputs != channels:
            shortcut = Conv(inputs, channels, 1, draws, stride=total_stride)
            self.downsample = Chain(shortcut, norm(channels))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H', W', outputs]."""
        shortcut = self.downsample(x, call) if hasattr(self, "downsample") else x
        for i, name in enumerate(self.names, 1):
            x = x if i == 1 else jax.nn.relu(x)
            x = getattr(self, name)(getattr(self, f"conv{i}")(x, call), call)
        return jax.nn.relu(x + shortcut)


class Form(NamedTuple):
    """Blocks and stages of a residual network."""

    counts: tuple[int, ...]  # blocks of each stage
    convs: Callable[[int, int], Convs] = basic  # width, stride -> convolutions
    norms: Sequence[str] = ("bn1", "bn2")  # names of a block's norms
    names: Sequence[str] = ("layer1", "layer2", "layer3", "layer4")  # of the stages
    stage: Callable[..., nnx.Module] = Chain  # blocks -> stage


SMALL_STAGES = tuple(f"layer_{i}" for i in range(len(WIDTHS)))
# A stage of a small network is its only block, without a Chain
SMALL = Form((1, 1, 1, 1), basic, ("bn2", "bn3"), SMALL_STAGES, lambda block: block)
LARGE = Form((3, 4, 6, 3), bottleneck, ("bn1", "bn2", "bn3"))
FORMS = {  # layers -> form
    4: SMALL._replace(counts=(1,)),
    6: SMALL._replace(counts=(1, 1)),
    8: SMALL._replace(counts=(1, 1, 1)),
    10: SMALL,
    18: Form((2, 2, 2, 2)),
    34: Form((3, 4, 6, 3)),
    50: LARGE,
    101: LARGE._replace(counts=(3, 4, 23, 3)),
    152: LARGE._replace(counts=(3, 8, 36, 3)),
}


class ResNet(nnx.Module):
    """Stem, one stage per width, mean over the image: features at least 0."""

    def __init__(self, form: Form, norm: Norm, channels: int, draws: InitialDraws):
        stages = [*zip(form.names, WIDTHS, form.counts, strict=False)]
        self.stage_names = tuple(name for name, *_ in stages)
        inputs, stride = 64, 1
        for name, width, count in stages:
            blocks: list[nnx.Module] = []
            for _ in range(count):
                convs = form.convs(width, stride)
                blocks.append(Block(inputs, convs, form.norms, norm, draws))
                stride, inputs = 1, convs[-1][1]
            setattr(self, name, form.stage(*blocks))
            stride = 2  # all stages but the first halve the map
        self.conv1 = Conv(channels, 64, 7, draws, stride=2, padding=3)
        self.bn1 = norm(64)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, channels] to [B, last width]."""
        x = jax.nn.relu(self.bn1(self.conv1(x, call), call))
        x = call.ops.max_pool(x, 3, 2, 1)
        for name in self.stage_names:
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
    """ResNet with torchvision's stem; `head` has the widths of hidden head layers."""
    channels = image_shape(f"resnet{depth}", input_shape)[-1]
    body = partial(ResNet, FORMS[depth], norm, channels)
    return make_net(body, num_classes, feat_dim, ops, hidden=head)


resnet4, resnet6, resnet8, resnet10 = (partial(resnet, n) for n in (4, 6, 8, 10))
resnet18, resnet34 = partial(resnet, 18), partial(resnet, 34)
resnet50, resnet101, resnet152 = (partial(resnet, n) for n in (50, 101, 152))
resnet18_gn = partial(resnet, 18, norm=GroupNorm)

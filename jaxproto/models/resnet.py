"""Residual networks of basic blocks: ResNet-4, 6, 8, 10 and 18.

The first four in structure and names as in ProtoNorm's released code (`resnet8`):
torchvision's ImageNet stem is kept, stages have one block each. ResNet-18 is
torchvision's. He, Zhang, Ren, Sun, "Deep Residual Learning
for Image Recognition", CVPR 2016, https://arxiv.org/abs/1512.03385.

`resnet18_gn` has GroupNorm of two groups in place of BatchNorm, as the released code of
FedNH; its stem is torchvision's, where FedNH's has a 3x3 convolution without pooling.
"""

import functools
from collections.abc import Callable

import jax
from flax import nnx

from jaxproto.models.from_modules import make_net
from jaxproto.models.images import image_shape
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


def one_block_stages(widths: tuple[int, ...], draws: InitialDraws) -> dict:
    """Makes `layer_0`, `layer_1`, ... of one block each; later ones halve the map."""
    inputs = (64, *widths)
    return {
        f"layer_{i}": BasicBlock(inputs[i], width, 1 if i == 0 else 2, draws)
        for i, width in enumerate(widths)
    }


def two_block_stages(draws: InitialDraws, norm: Norm) -> dict:
    """Makes torchvision's `layer1` to `layer4` of two blocks each."""
    inputs, options = (64, *WIDTHS), (("bn1", "bn2"), norm)
    return {
        f"layer{i + 1}": Chain(
            BasicBlock(inputs[i], width, 1 if i == 0 else 2, draws, *options),
            BasicBlock(width, width, 1, draws, *options),
        )
        for i, width in enumerate(WIDTHS)
    }


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
        return ResNet(channels, one_block_stages(WIDTHS[:blocks], draws), draws)

    return make_net(body, num_classes=num_classes, feat_dim=feat_dim, ops=ops)


resnet4, resnet6, resnet8, resnet10 = (functools.partial(small, n) for n in range(1, 5))


def resnet18(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    norm: Norm = BatchNorm,
) -> Net:
    """torchvision's ResNet-18 with its ImageNet stem."""
    channels = image_shape("resnet18", input_shape)[-1]

    def body(draws):
        return ResNet(channels, two_block_stages(draws, norm), draws, norm)

    return make_net(body, num_classes=num_classes, feat_dim=feat_dim, ops=ops)


resnet18_gn = functools.partial(resnet18, norm=GroupNorm)

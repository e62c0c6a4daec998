"""MobileNetV2, width 1.

Structure and names as in torchvision, of which the released code has an older copy.
Sandler, Howard, Zhu, Zhmoginov, Chen, "MobileNetV2: Inverted Residuals and Linear
Bottlenecks", CVPR 2018, https://arxiv.org/abs/1801.04381.

Deviations:
- dropout: at the end of the base in the released code (`mobilenet_v2_code`); here on
  the logits' path only (`mobilenet_v2`), so that features and prototypes are clean.
"""

import functools

from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.models.dropout import Place, before_pool, logits_only
from jaxproto.models.from_modules import image_shape, make_net
from jaxproto.models.layers import (
    BatchNorm,
    CallContext,
    Chain,
    Conv,
    InitialDraws,
    conv_norm,
    relu6,
)
from jaxproto.models.ops import Ops, global_mean

WIDTH = 1280
# The paper's Table 2: expansion, channels, blocks, stride of the first block
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)


class InvertedResidual(nnx.Module):
    """Expansion, depthwise 3x3, linear projection; a shortcut where shapes allow it."""

    def __init__(
        self, inputs: int, outputs: int, expand: int, stride: int, draws: InitialDraws
    ):
        self.has_shortcut = stride == 1 and inputs == outputs
        hidden, layers = inputs * expand, []
        if expand != 1:
            layers.append(conv_norm(inputs, hidden, 1, relu6, draws))
        options = {"stride": stride, "groups": hidden}
        layers.append(conv_norm(hidden, hidden, 3, relu6, draws, **options))
        project = Conv(hidden, outputs, 1, draws)
        self.conv = Chain(*layers, project, BatchNorm(outputs))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H', W', outputs]."""
        y = self.conv(x, call)
        return x + y if self.has_shortcut else y


class MobileNetV2(nnx.Module):
    """Stem, 17 blocks, 1x1 convolution, mean over the image: features in [0, 6]."""

    def __init__(self, channels: int, draws: InitialDraws):
        stem = conv_norm(channels, 32, 3, relu6, draws, stride=2)
        layers: list[nnx.Module] = [stem]
        inputs = 32
        for expand, outputs, blocks, stride in STAGES:
            for i in range(blocks):
                step = stride if i == 0 else 1
                layers.append(InvertedResidual(inputs, outputs, expand, step, draws))
                inputs = outputs
        self.features = Chain(*layers, conv_norm(inputs, WIDTH, 1, relu6, draws))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, channels] to [B, 1280]."""
        return global_mean(self.features(x, call))


def mobilenet_v2(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    place: Place = logits_only,
    head: tuple[int, ...] = (),
) -> Net:
    """MobileNetV2 for images of any size.

    `place` says where its dropout acts; `head` has the widths of hidden head layers.
    """
    channels = image_shape("mobilenet_v2", input_shape)[-1]
    body = functools.partial(MobileNetV2, channels)
    return make_net(body, num_classes, feat_dim, ops, hidden=head, place=place)


mobilenet_v2_code = functools.partial(mobilenet_v2, place=before_pool)

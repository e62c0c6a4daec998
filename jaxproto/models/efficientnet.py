"""EfficientNet-B0.

Structure and names as in torchvision. Tan, Le, "EfficientNet: Rethinking Model Scaling
for Convolutional Neural Networks", ICML 2019, https://arxiv.org/abs/1905.11946.

Deviations:
- dropout: the released head begins with one in place, which overwrites the features
  (`efficientnet_b0_code`); here on the logits' path only (`efficientnet_b0`).
"""

import functools

import jax
from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.models.dropout import Place, drop_rows, dropout_features, logits_only
from jaxproto.models.from_modules import image_shape, make_net
from jaxproto.models.layers import (
    CallContext,
    Chain,
    Conv,
    InitialDraws,
    conv_norm,
    identity,
    silu,
    zeros,
)
from jaxproto.models.ops import Ops, global_mean

WIDTH = 1280
DEPTH_RATE = 0.2  # of stochastic depth; block i of n drops with rate 0.2 i / n
# The paper's Table 1: expansion, kernel, stride of the first block, channels, blocks
STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


class SqueezeExcite(nnx.Module):
    """Channels scaled by gates in (0, 1) that are computed from the whole image.

    Its two 1x1 convolutions see one pixel per image, so they are matrix products.
    """

    def __init__(self, width: int, squeezed: int, draws: InitialDraws):
        self.fc1 = Conv(width, squeezed, 1, draws, bias=True, bias_init=zeros)
        self.fc2 = Conv(squeezed, width, 1, draws, bias=True, bias_init=zeros)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, width] to [B, H, W, width]."""
        layers = (self.fc1, self.fc2)
        return gated(x, *((fc.kernel[...], fc.bias[...]) for fc in layers))


@jax.jit
def gated(x: Array, squeeze, excite) -> Array:
    """Multiplies x [B, H, W, C] by its gates; traced once for each shape.

    Args:
      squeeze: Kernel and bias of the first 1x1 convolution.
      excite: Kernel and bias of the second.
    """
    gate = jax.nn.silu(one_pixel(global_mean(x), *squeeze))
    return x * jax.nn.sigmoid(one_pixel(gate, *excite))[:, None, None]


def one_pixel(x: Array, kernel: Array, bias: Array) -> Array:
    """Applies a 1x1 convolution to images of one pixel [B, inputs]."""
    matrix = kernel.reshape(kernel.shape[2:]).astype(x.dtype)
    return x @ matrix + bias.astype(x.dtype)


class MBConv(nnx.Module):
    """Expansion, depthwise convolution, squeeze-excite, linear projection."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        expand: int,
        kernel: int,
        stride: int,
        depth_rate: float,
        draws: InitialDraws,
    ):
        self.has_shortcut = stride == 1 and inputs == outputs
        self.depth_rate = depth_rate
        hidden, layers = inputs * expand, []
        if expand != 1:
            layers.append(conv_norm(inputs, hidden, 1, silu, draws))
        options = {"stride": stride, "groups": hidden}
        self.block = Chain(
            *layers,
            conv_norm(hidden, hidden, kernel, silu, draws, **options),
            SqueezeExcite(hidden, max(1, inputs // 4), draws),
            conv_norm(hidden, outputs, 1, identity, draws),
        )

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H', W', outputs]."""
        y = self.block(x, call)
        return x + drop_rows(y, self.depth_rate, call) if self.has_shortcut else y


class EfficientNet(nnx.Module):
    """Stem, 16 blocks, 1x1 convolution with SiLU, mean: features above -0.28."""

    def __init__(self, channels: int, draws: InitialDraws):
        layers = [conv_norm(channels, 32, 3, silu, draws, stride=2)]
        total, done, inputs = sum(blocks for *_, blocks in STAGES), 0, 32
        for expand, kernel, stride, outputs, blocks in STAGES:
            stage = []
            for i in range(blocks):
                step, rate = stride if i == 0 else 1, DEPTH_RATE * done / total
                stage.append(MBConv(inputs, outputs, expand, kernel, step, rate, draws))
                inputs, done = outputs, done + 1
            layers.append(Chain(*stage))
        self.features = Chain(*layers, conv_norm(inputs, WIDTH, 1, silu, draws))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, channels] to [B, 1280]."""
        return global_mean(self.features(x, call))


def efficientnet_b0(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    place: Place = logits_only,
) -> Net:
    """EfficientNet-B0 for images of any size; `place` says where its dropout acts."""
    channels = image_shape("efficientnet_b0", input_shape)[-1]
    body = functools.partial(EfficientNet, channels)
    return make_net(body, num_classes, feat_dim, ops, place=place)


efficientnet_b0_code = functools.partial(efficientnet_b0, place=dropout_features)

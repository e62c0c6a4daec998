"""Convolutions over time for sensors (HARCNN 1 to 3 of HtFLlib and PFLlib).

Structure, names and initial values as in these libraries, which have them from
https://github.com/jindongwang/Deep-learning-activity-recognition. HtFLlib replaces the
last three layers by the channel pooling and a head, as here.
"""

from functools import partial
from typing import Any

import jax
from flax import nnx

from jaxproto.core.types import Array, Net
from jaxproto.errors import UserError
from jaxproto.models.from_modules import make_net
from jaxproto.models.layers import (
    CallContext,
    Chain,
    Conv,
    InitialDraws,
    flatten,
    kaiming_uniform,
)
from jaxproto.models.ops import Ops
from jaxproto.models.ops.pool import first_max

WIDTHS = (32, 64, 128)


class HARCNN(nnx.Module):
    """Convolutions over time, each with ReLU and max pooling of pairs of steps."""

    def __init__(
        self, channels: int, layers: int, window: int, stride: int, draws: InitialDraws
    ):
        self.layers, inputs = layers, channels
        options: dict[str, Any] = {"stride": stride, "init": kaiming_uniform}
        for i, width in enumerate(WIDTHS[:layers]):
            conv = Conv(inputs, width, (1, window), draws, bias=True, **options)
            setattr(self, f"conv{i + 1}", Chain(conv))
            inputs = width

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, time, channels, ...] to [B, features], ordered by channel."""
        x = x.reshape(len(x), 1, x.shape[1], -1)
        for i in range(self.layers):
            x = jax.nn.relu(getattr(self, f"conv{i + 1}")(x, call))
            pairs = x[:, :, : x.shape[2] // 2 * 2].reshape(
                len(x), 1, -1, 2, x.shape[-1]
            )
            x = first_max(pairs[:, :, :, 0], pairs[:, :, :, 1])
        return flatten(x)


def harcnn(
    input_shape: tuple[int, ...],
    num_classes: int,
    feat_dim: int,
    ops: Ops | None = None,
    *,
    layers: int = 2,
    stride: int = 1,
) -> Net:
    """One to three convolutions over windows of sensors, [time, channels]."""
    if layers > len(WIDTHS):
        raise UserError(
            f"network 'harcnn' has 1 to {len(WIDTHS)} layers, not {layers}."
        )
    time, channels = (*input_shape, 1, 1)[:2]
    window = 5 if layers == 3 else 9
    for _ in range(layers):
        time = ((time - window) // stride + 1) // 2
    if len(input_shape) not in (2, 3) or input_shape[2:] not in ((), (1,)) or time < 1:
        raise UserError(
            f"network 'harcnn' with layers={layers} and stride={stride} takes windows "
            f"[time, channels] of enough steps, but an input has shape {input_shape}. "
            "Use longer windows, fewer layers, a smaller stride, or network 'mlp'."
        )
    body = partial(HARCNN, channels, layers, window, stride)
    return make_net(body, num_classes, feat_dim, ops)

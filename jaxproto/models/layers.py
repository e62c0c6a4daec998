"""Layers as Flax NNX modules with PyTorch's shapes, names and initial values.

A layer has parameters and statistics only. The mode (training or evaluation), the form
of each operation and random keys are arguments in a `CallContext`, so that one module
serves every platform. Parameters are float32. A layer computes in the precision of its
input, but normalisation always in float32. On CPUs the form of a product may round its
operands.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from jaxproto.core.types import Array
from jaxproto.models.ops import Ops, at_least_single, norm, with_batch, with_stats


class CallContext(NamedTuple):
    """Settings of one application of a network."""

    train: bool
    ops: Ops
    keys: Iterator[Array] | None = None  # of dropout; None switches it off


class InitialDraws:
    """Random initial values, cut from one long draw of each kind.

    A draw per array would compile a random generator per array. Without `values` all
    draws are zeros. `used` counts the values of each kind that a network takes.
    """

    def __init__(self, values: dict[str, Array] | None = None):
        self.values, self.used = values, {"uniform": 0, "normal": 0}

    def uniform(self, shape: tuple[int, ...]) -> Array:
        """Returns values from U(-1, 1)."""
        return self.cut("uniform", shape)

    def normal(self, shape: tuple[int, ...]) -> Array:
        """Returns values from N(0, 1)."""
        return self.cut("normal", shape)

    def cut(self, kind, shape):
        """Returns the next values of a kind, in this shape."""
        start = self.used[kind]
        self.used[kind] = stop = start + math.prod(shape)
        if self.values is None:
            return jnp.zeros(shape)
        return jax.lax.slice(self.values[kind], (start,), (stop,)).reshape(shape)


def draw_initial(key: Array, sizes: dict[str, int]) -> InitialDraws:
    """Draws the random values of a network.

    Args:
      sizes: Number of values of each kind, as `InitialDraws.used`.
    """
    uniform, normal = jax.random.split(key)
    return InitialDraws(
        {
            "uniform": jax.random.uniform(uniform, (sizes["uniform"],), minval=-1),
            "normal": jax.random.normal(normal, (sizes["normal"],)),
        }
    )


def kaiming_uniform(draws: InitialDraws, shape: tuple[int, ...], fan_in: int) -> Array:
    """Draws PyTorch's default of weights and biases: U(-1, 1) / sqrt(fan_in)."""
    return draws.uniform(shape) / math.sqrt(fan_in)


def kaiming_normal(draws: InitialDraws, shape: tuple[int, ...], fan_in: int) -> Array:
    """Draws He's normal values by fan-out, as torchvision, for [kh, kw, C, C'].

    `fan_in` is unused: all initialisers have one signature.
    """
    kh, kw, _, out = shape
    return draws.normal(shape) * math.sqrt(2 / (kh * kw * out))


def zeros(draws: InitialDraws, shape: tuple[int, ...], fan_in: int) -> Array:
    """Returns zeros, with the signature of an initialiser."""
    return jnp.zeros(shape)


def relu(x: Array, call: CallContext) -> Array:
    """Returns max(x, 0), with the signature of a module."""
    return jax.nn.relu(x)


def relu6(x: Array, call: CallContext) -> Array:
    """Clips x to [0, 6], without gradient at either end, as in PyTorch."""
    low, high = (jnp.asarray(bound, x.dtype) for bound in (0, 6))
    return jax.lax.clamp(low, x, high)


def silu(x: Array, call: CallContext) -> Array:
    """Returns x times its sigmoid."""
    return jax.nn.silu(x)


def identity(x: Array, call: CallContext) -> Array:
    """Returns x."""
    return x


class Linear(nnx.Module):
    """Linear layer: x @ kernel + bias."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        draws: InitialDraws,
        bias: bool = True,
        *,
        init=kaiming_uniform,
        bias_init=kaiming_uniform,
    ):
        self.kernel = nnx.Param(init(draws, (inputs, outputs), inputs))
        if bias:
            self.bias = nnx.Param(bias_init(draws, (outputs,), inputs))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, inputs] to [B, outputs]."""
        x = call.ops.product(x, self.kernel[...].astype(x.dtype))
        return x + self.bias[...].astype(x.dtype) if hasattr(self, "bias") else x


class Conv(nnx.Module):
    """Convolution; `groups` equal to `inputs` and `outputs` makes it depthwise."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int | tuple[int, int],
        draws: InitialDraws,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
        init=kaiming_normal,
        bias_init=kaiming_uniform,
    ):
        self.stride, self.padding, self.groups = stride, padding, groups
        window = (size, size) if isinstance(size, int) else size
        shape = (*window, inputs // groups, outputs)
        fan_in = math.prod(shape[:3])
        self.kernel = nnx.Param(init(draws, shape, fan_in))
        if bias:
            self.bias = nnx.Param(bias_init(draws, (outputs,), fan_in))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Maps [B, H, W, inputs] to [B, H', W', outputs]."""
        args = self.kernel[...].astype(x.dtype), self.stride, self.padding
        if self.groups == 1:
            x = call.ops.conv(x, *args)
        elif self.groups == x.shape[-1] == self.kernel.shape[-1]:
            x = call.ops.depthwise(x, *args)
        else:
            x = call.ops.grouped(x, *args, self.groups)
        return x + self.bias[...].astype(x.dtype) if hasattr(self, "bias") else x


class BatchNorm(nnx.Module):
    """Batch normalisation over all axes but the last, as in PyTorch."""

    def __init__(self, width: int, eps: float = norm.EPS):
        self.eps = eps
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width))
        self.mean = nnx.BatchStat(jnp.zeros(width))
        self.var = nnx.BatchStat(jnp.ones(width))

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Normalises x; in training by the batch, updating the statistics."""
        stats, dtype = (self.mean, self.var), x.dtype
        values = [v[...] for v in (self.scale, self.bias, *stats)]
        x = at_least_single(x)
        if not call.train:
            return with_stats(x, *values, eps=self.eps).astype(dtype)
        x, *new_stats = with_batch(x, *values, call.ops.sums, eps=self.eps)
        for stat, value in zip(stats, new_stats, strict=True):
            stat.set_value(value)  # stat[...] = value asks a tracer for its sharding
        return x.astype(dtype)


class GroupNorm(nnx.GroupNorm):
    """Normalisation of each example over each half of the channels, as in PyTorch.

    It has no running statistics, so training and evaluation compute the same. Wu, He:
    Group Normalization, ECCV 2018, https://arxiv.org/abs/1803.08494.
    """

    def __init__(self, width: int):
        rngs = nnx.Rngs(0)  # draws nothing
        super().__init__(width, 2, epsilon=norm.EPS, use_fast_variance=False, rngs=rngs)

    # Signature of the layers here: wrapping nnx.GroupNorm would rename its parameters
    def __call__(self, x: Array, call: CallContext) -> Array:  # type: ignore[override]
        """Maps [B, H, W, width] to [B, H, W, width]."""
        return super().__call__(at_least_single(x)).astype(x.dtype)


class Chain(nnx.Module):
    """Modules, or functions of (x, call), one after the other.

    A member's name is its position, '0', '1', ..., as in PyTorch; functions are
    counted too.
    """

    def __init__(self, *members):
        self.length = len(members)
        for i, member in enumerate(members):
            setattr(self, str(i), member)

    def __call__(self, x: Array, call: CallContext) -> Array:
        """Applies every member in turn."""
        for i in range(self.length):
            x = getattr(self, str(i))(x, call)
        return x


def conv_norm(
    inputs: int, outputs: int, size: int, activation, draws: InitialDraws, **options
) -> Chain:
    """Chains a convolution with padding, normalisation and activation."""
    conv = Conv(inputs, outputs, size, draws, padding=(size - 1) // 2, **options)
    return Chain(conv, BatchNorm(outputs), activation)


def flatten(x: Array) -> Array:
    """Flattens [B, H, W, C] to [B, C * H * W], the order of PyTorch's weights."""
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)

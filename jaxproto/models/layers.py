"""Layers as Flax NNX modules with PyTorch's shapes, names and initial values.

A layer holds parameters and statistics only. How it is called (training or not, which
form of each operation, randomness) comes as a `Call`, so nothing is global and the
same module serves every platform.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx

from jaxproto import nn
from jaxproto.types import Array


class Call(NamedTuple):
    """How a network is applied."""

    train: bool
    ops: nn.Ops
    rngs: nnx.Rngs | None = None  # of dropout and the like; None switches them off


def kaiming_uniform(key: Array, shape: tuple[int, ...], fan_in: int) -> Array:
    """PyTorch's default for weights and biases: U(-1, 1) / sqrt(fan_in)."""
    bound = 1 / math.sqrt(fan_in)
    return jax.random.uniform(key, shape, minval=-bound, maxval=bound)


def kaiming_normal(key: Array, shape: tuple[int, ...], fan_in: int) -> Array:
    """He's normal values by fan-out, as torchvision draws convolutions [kh, kw, ., C].

    The number of inputs plays no part; it is there for the signature.
    """
    del fan_in
    kh, kw, _, out = shape
    return jax.random.normal(key, shape) * math.sqrt(2 / (kh * kw * out))


class Linear(nnx.Module):
    """x @ kernel + bias."""

    def __init__(self, inputs: int, outputs: int, rngs: nnx.Rngs, bias: bool = True):
        init = kaiming_uniform
        self.kernel = nnx.Param(init(rngs.params(), (inputs, outputs), inputs))
        if bias:
            self.bias = nnx.Param(init(rngs.params(), (outputs,), inputs))

    def __call__(self, x: Array, call: Call | None = None) -> Array:
        """[B, inputs] to [B, outputs]."""
        del call
        x = x @ self.kernel[...]
        return x + self.bias[...] if hasattr(self, "bias") else x


class Conv(nnx.Module):
    """Convolution; `groups` equal to `inputs` and `outputs` makes it depthwise."""

    def __init__(
        self,
        inputs: int,
        outputs: int,
        size: int,
        rngs: nnx.Rngs,
        *,
        stride: int = 1,
        padding: int = 0,
        groups: int = 1,
        bias: bool = False,
        init=kaiming_normal,
    ):
        self.stride, self.padding, self.groups = stride, padding, groups
        shape = (size, size, inputs // groups, outputs)
        self.kernel = nnx.Param(init(rngs.params(), shape, math.prod(shape[:3])))
        if bias:
            key, fan_in = rngs.params(), math.prod(shape[:3])
            self.bias = nnx.Param(kaiming_uniform(key, (outputs,), fan_in))

    def __call__(self, x: Array, call: Call) -> Array:
        """[B, H, W, inputs] to [B, H', W', outputs]."""
        where = self.kernel[...], self.stride, self.padding
        if self.groups == 1:
            x = call.ops.conv(x, *where)
        elif self.groups == x.shape[-1] == self.kernel.shape[-1]:
            x = call.ops.depthwise(x, *where)
        else:
            x = call.ops.grouped(x, *where, self.groups)
        return x + self.bias[...] if hasattr(self, "bias") else x


class BatchNorm(nnx.Module):
    """Batch normalisation over all axes but the last, as in PyTorch."""

    def __init__(self, width: int):
        self.scale = nnx.Param(jnp.ones(width))
        self.bias = nnx.Param(jnp.zeros(width))
        self.mean = nnx.BatchStat(jnp.zeros(width))
        self.var = nnx.BatchStat(jnp.ones(width))

    def __call__(self, x: Array, call: Call) -> Array:
        """Uses, and remembers, the batch's statistics when training."""
        scale, bias, old = self.scale[...], self.bias[...], (self.mean, self.var)
        if not call.train:
            return nn.with_stats(x, scale, bias, *(stat[...] for stat in old))
        x, *batch = nn.batch_norm(x, scale, bias)
        n = x.size // x.shape[-1]
        new = nn.update_stats(*(stat[...] for stat in old), *batch, n)
        self.mean[...], self.var[...] = new
        return x


class Chain(nnx.Module):
    """Modules one after the other under the names '0', '1', ..."""

    def __init__(self, *modules: nnx.Module):
        self.length = len(modules)
        for i, module in enumerate(modules):
            setattr(self, str(i), module)

    def __call__(self, x: Array, call: Call) -> Array:
        """Applies every module in turn."""
        for i in range(self.length):
            x = getattr(self, str(i))(x, call)
        return x


def flatten(x: Array) -> Array:
    """[B, H, W, C] to [B, C * H * W] in PyTorch's order, so that weights carry over."""
    return x.transpose(0, 3, 1, 2).reshape(len(x), -1)

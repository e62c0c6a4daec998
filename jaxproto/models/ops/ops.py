"""Fastest forms of operations by platform."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.models.ops import channel_sums, conv, forms, pool
from jaxproto.models.ops.channel_shuffle import interleave, interleave_by_product
from jaxproto.models.ops.row_product import product
from jaxproto.models.ops.trim_padding import no_trim, trim_by_switch
from jaxproto.types import Array


class Ops(NamedTuple):
    """Operations on images [B, H, W, C] or texts; networks take them as an argument."""

    conv: Callable[..., Array]  # x, kernel, stride, padding
    depthwise: Callable[..., Array]  # x, kernel, stride, padding
    grouped: Callable[..., Array]  # x, kernel, stride, padding, groups
    product: Callable[..., Array]  # x [R, N], matrix [N, N']
    head: Callable[..., Array]  # as `product`, for the head of a network
    words: Callable[..., Array]  # as `product`, for the words of a batch of texts
    max_pool: Callable[..., Array]  # x, size, stride, padding
    sums: channel_sums.Sums  # of batch normalisation
    cut: Callable[..., Array]  # f, tokens [B, L], columns that count
    shuffle: Callable[..., Array]  # a, b [..., C]


def traced_once(f: Callable, *static: str) -> Callable:
    """Compiles `f` so that it is traced once for each shape, not for each layer."""
    return jax.jit(f, static_argnames=static)


PRODUCT = traced_once(product, "operands")
CPU = Ops(
    traced_once(conv.conv_matmul, "stride", "padding"),
    traced_once(conv.depthwise_shift, "stride", "padding"),
    traced_once(conv.grouped_matmul, "stride", "padding", "groups"),
    PRODUCT,
    PRODUCT,
    jnp.matmul,
    traced_once(pool.max_pool_chain, "size", "stride", "padding"),
    channel_sums.SHORT_FIRST,
    trim_by_switch,
    interleave,
)
ROUNDED = partial(PRODUCT, operands="bfloat16")
CPU_BFLOAT16 = CPU._replace(
    conv=traced_once(conv.conv_bfloat16, "stride", "padding"),
    product=ROUNDED,
    words=ROUNDED,
)
LAX = Ops(
    conv.conv_lax,
    conv.depthwise_lax,
    conv.conv_lax,
    jnp.matmul,
    jnp.matmul,
    jnp.matmul,
    pool.max_pool_lax,
    channel_sums.PLAIN,
    no_trim,
    interleave,
)
TPU = LAX._replace(sums=channel_sums.ONE_PASS, shuffle=interleave_by_product)
GPU = LAX._replace(sums=channel_sums.ONE_PASS, **forms.chosen("gpu"))
PLATFORMS = {"cpu": CPU, "tpu": TPU, "gpu": GPU}


def ops_for(platform: str | None = None) -> Ops:
    """Returns the operations for a platform; by default the one of JAX.

    Those of TPUs were chosen from programs that XLA compiles for them
    (`benchmarks.tpu`); `forms.json` has those of GPUs.
    """
    return PLATFORMS.get(platform or jax.default_backend(), LAX)


def ops_in(dtype: str, ops: Ops | None = None) -> tuple[Ops, str]:
    """Returns the operations of a body in a precision, and its arrays' number format.

    On a CPU only matrix products gain from bfloat16, so arrays stay float32 there:
    elsewhere conversions cost more than they save.
    """
    ops = ops or ops_for()
    if dtype == "bfloat16" and ops == CPU:
        return CPU_BFLOAT16, "float32"
    return ops, dtype

"""Fastest forms of operations by platform; `forms.json` has some for GPUs.

`python -m benchmarks.accelerator --choose` writes the file on the accelerator itself.
"""

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.types import Array
from jaxproto.models.ops import channel_sums, conv, pool
from jaxproto.models.ops.row_product import product
from jaxproto.models.ops.trim_padding import no_trim, trim_by_switch

FILE = Path(__file__).with_name("forms.json")
FORMS: Mapping[str, Mapping[str, Callable]] = {  # field of `Ops` -> name -> function
    "conv": {
        "lax": conv.conv_lax,
        "taps": conv.conv_by_tap,
        "matmul": conv.conv_matmul,
    },
    "depthwise": {"lax": conv.depthwise_lax, "shift": conv.depthwise_shift},
    "grouped": {"lax": conv.conv_lax, "matmul": conv.grouped_matmul},
    "max_pool": {"lax": pool.max_pool_lax, "chain": pool.max_pool_chain},
}


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


def chosen(platform: str, file: Path = FILE) -> dict[str, Callable]:
    """Returns the function of each operation that the file names for a platform."""
    names = json.loads(file.read_text()).get(platform, {}).get("forms", {})
    return {kind: FORMS[kind][name] for kind, name in names.items()}


def interleave(a: Array, b: Array) -> Array:
    """Interleaves channels a_0, b_0, a_1, ...: two [..., C] to [..., 2 C]."""
    return jnp.stack((a, b), -1).reshape(*a.shape[:-1], -1)


def interleave_by_product(a: Array, b: Array) -> Array:
    """Interleaves channels by two products with matrices of 0 and 1, for TPUs.

    In full precision each output is one channel plus zeros, so values and gradients are
    those of `interleave`. But an infinite channel makes other channels NaN.
    """
    n = a.shape[-1]
    row, column = jnp.arange(n)[:, None], jnp.arange(2 * n)
    full = jax.lax.Precision.HIGHEST  # a TPU rounds to bfloat16 otherwise

    def placed(x, g):
        place = (column == 2 * row + g).astype(x.dtype)
        return jnp.matmul(x, place, precision=full)

    return placed(a, 0) + placed(b, 1)


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
GPU = LAX._replace(sums=channel_sums.ONE_PASS, **chosen("gpu"))
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

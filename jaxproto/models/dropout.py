"""Dropout, stochastic depth, and the placement of dropout relative to features.

A placement is a function `place(x, pool, call)` of the body's output x [B, width] and
the channel pooling. It returns the features [B, D], which prototypes and the pull
towards them see, and the input of the head. The placements of the released code and the
default ones differ: docs/decisions.md#dropout.

Srivastava et al., "Dropout", JMLR 2014, https://jmlr.org/papers/v15/srivastava14a.html.
Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016,
https://arxiv.org/abs/1603.09382.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxproto.core.types import Array
from jaxproto.models.layers import CallContext

RATE = 0.2  # in torchvision, in the released code, and of HtFLlib's LSTM and GRU

Pool = Callable[[Array], Array]  # [B, width] -> features [B, D]
Place = Callable[[Array, Pool, CallContext], tuple[Array, Array]]


def dropout(
    x: Array, rate: float, call: CallContext, mask_shape: tuple[int, ...] | None = None
) -> Array:
    """Zeroes elements with probability `rate`; scales the others by 1 / (1 - rate).

    Args:
      mask_shape: Shape of the random mask; by default that of x.
    """
    if call.keys is None or rate == 0:
        return x
    keep = jax.random.bernoulli(next(call.keys), 1 - rate, mask_shape or x.shape)
    return jnp.where(keep, x / (1 - rate), 0)


def drop_rows(x: Array, rate: float, call: CallContext) -> Array:
    """Zeroes whole examples [B, ...]: stochastic depth of a residual branch."""
    return dropout(x, rate, call, (len(x),) + (1,) * (x.ndim - 1))


def no_dropout(x: Array, pool: Pool, call: CallContext) -> tuple[Array, Array]:
    """Places no dropout."""
    feat = pool(x)
    return feat, feat


def logits_only(x: Array, pool: Pool, call: CallContext) -> tuple[Array, Array]:
    """Places dropout before the head only; features are clean."""
    feat = pool(x)
    return feat, dropout(feat, RATE, call)


def before_pool(x: Array, pool: Pool, call: CallContext) -> tuple[Array, Array]:
    """Places dropout at the end of the base, as the released MobileNetV2."""
    return no_dropout(dropout(x, RATE, call), pool, call)


def dropout_features(x: Array, pool: Pool, call: CallContext) -> tuple[Array, Array]:
    """Places dropout on the features, as the in-place one of EfficientNet's head."""
    feat = dropout(pool(x), RATE, call)
    return feat, feat

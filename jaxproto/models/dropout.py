"""Dropout, stochastic depth, and the placement of dropout relative to features.

A placement is a function `place(x, pool, call)` from what the body returns, [B, width],
and the channel pooling to the features (what prototypes and the pull towards them use)
and the head's input. The released code and a clean reading differ here:
docs/decisions.md#dropout.

Srivastava et al., "Dropout", JMLR 2014, https://jmlr.org/papers/v15/srivastava14a.html.
Huang et al., "Deep Networks with Stochastic Depth", ECCV 2016,
https://arxiv.org/abs/1603.09382.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp

from jaxproto.models.layers import CallContext
from jaxproto.types import Array

RATE = 0.2  # MobileNetV2 and EfficientNet-B0, in torchvision and in the released code

Examples = Callable[[Array], Array]
Place = Callable[[Array, Examples, CallContext], tuple[Array, Array]]


def dropout(x: Array, rate: float, call: CallContext) -> Array:
    """Zeroes each element with probability `rate`; the rest grow by 1 / (1 - rate)."""
    return apply_mask(x, x.shape, rate, call)


def drop_rows(x: Array, rate: float, call: CallContext) -> Array:
    """Zeroes whole examples [B, ...]: stochastic depth of a residual branch."""
    return apply_mask(x, (len(x),) + (1,) * (x.ndim - 1), rate, call)


def apply_mask(x, shape, rate, call):
    """Zeroes elements by a random mask of `shape`, with a key and a rate above 0."""
    if call.keys is None or rate == 0:
        return x
    keep = jax.random.bernoulli(call.keys(), 1 - rate, shape)
    return jnp.where(keep, x / (1 - rate), 0)


def no_dropout(x: Array, examples: Examples, call: CallContext) -> tuple[Array, Array]:
    """Places no dropout."""
    feat = examples(x)
    return feat, feat


def logits_only(x: Array, examples: Examples, call: CallContext) -> tuple[Array, Array]:
    """Places dropout before the head only; features are clean."""
    feat = examples(x)
    return feat, dropout(feat, RATE, call)


def before_pool(x: Array, examples: Examples, call: CallContext) -> tuple[Array, Array]:
    """Places dropout at the end of the base, as the released MobileNetV2."""
    return no_dropout(dropout(x, RATE, call), examples, call)


def dropout_features(
    x: Array, examples: Examples, call: CallContext
) -> tuple[Array, Array]:
    """Drops the features themselves, as in-place dropout of EfficientNet's head."""
    feat = dropout(examples(x), RATE, call)
    return feat, feat

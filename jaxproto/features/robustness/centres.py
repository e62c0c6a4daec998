"""Robust centres of K vectors that hostile clients may have sent.

    median            per coordinate (Yin et al., ICML 2018)
    trimmed_mean      per coordinate, without the b lowest and b highest (Yin et al.)
    clipped_mean      mean of vectors clipped to their median length
    krum              the vector with the nearest m - b - 2 neighbours (Blanchard et
                      al., NeurIPS 2017)
    geometric_median  Weiszfeld's iterations (Pillutla et al., IEEE TSP 2022)

Of the m senders, b may be hostile: the share of m, rounded up, but less than half of m.
With one or two vectors, b is 0.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax

from jaxproto.core.hyperparameters import Real
from jaxproto.core.types import Array

Centre = Callable[[Array, Array, Real], Array]  # x_KN, sent_K, share -> [N]

WEISZFELD = 32  # iterations of the geometric median
ROUNDING = 1e-4  # by which a share of m may exceed a whole number in float32


def num_hostile(sent_K: Array, share: Real) -> Array:
    """Returns b, the number of senders that may be hostile."""
    m = jnp.sum(sent_K)
    b = jnp.ceil(share * m - ROUNDING).astype(m.dtype)
    return jnp.minimum(b, jnp.maximum(m - 1, 0) // 2)


def mean_of_ranks(x_KN: Array, sent_K: Array, first: Array, last: Array) -> Array:
    """Averages the values of ranks `first` to `last` of every coordinate."""
    sorted_KN = jnp.sort(jnp.where(sent_K[:, None], x_KN, jnp.inf), 0)
    rank_K = jnp.arange(len(x_KN))
    kept_K = (rank_K >= first) & (rank_K <= last) & (rank_K < jnp.sum(sent_K))
    total_N = jnp.sum(sorted_KN, 0, where=kept_K[:, None])
    return total_N / jnp.maximum(jnp.sum(kept_K), 1)


def median(x_KN: Array, sent_K: Array, share: Real = 0.0) -> Array:
    """Returns the median of every coordinate."""
    m = jnp.sum(sent_K)
    return mean_of_ranks(x_KN, sent_K, (m - 1) // 2, m // 2)


def trimmed_mean(x_KN: Array, sent_K: Array, share: Real) -> Array:
    """Returns the mean of every coordinate without its extreme values."""
    b = num_hostile(sent_K, share)
    return mean_of_ranks(x_KN, sent_K, b, jnp.sum(sent_K) - 1 - b)


def clipped_mean(x_KN: Array, sent_K: Array, share: Real = 0.0) -> Array:
    """Returns the mean of vectors clipped to the (lower) median of their lengths."""
    m, length_K = jnp.sum(sent_K), jnp.linalg.norm(x_KN, axis=1)
    middle = jnp.maximum(m - 1, 0) // 2
    limit = jnp.sort(jnp.where(sent_K, length_K, jnp.inf))[middle]
    factor_K = jnp.minimum(limit / jnp.maximum(length_K, 1e-30), 1.0)
    return jnp.where(sent_K, factor_K, 0.0) @ x_KN / jnp.maximum(m, 1)


def krum(x_KN: Array, sent_K: Array, share: Real) -> Array:
    """Returns the vector with the smallest sum of squared distances to its neighbours.

    Neighbours are the m - b - 2 nearest vectors, at least one.
    """
    square_KK = lax.map(lambda x_N: jnp.sum((x_KN - x_N) ** 2, 1), x_KN)
    others_KK = sent_K & ~jnp.eye(len(x_KN), dtype=bool)
    sorted_KK = jnp.sort(jnp.where(others_KK, square_KK, jnp.inf), 1)
    m = jnp.sum(sent_K)
    number = jnp.minimum(jnp.maximum(m - num_hostile(sent_K, share) - 2, 1), m - 1)
    score_K = jnp.sum(sorted_KK, 1, where=jnp.arange(len(x_KN)) < number)
    score_K = jnp.minimum(score_K, jnp.finfo(score_K.dtype).max)
    return x_KN[jnp.argmin(jnp.where(sent_K, score_K, jnp.inf))]


def geometric_median(x_KN: Array, sent_K: Array, share: Real = 0.0) -> Array:
    """Returns the point with the smallest sum of distances to the vectors."""

    def nearer(_, point_N):
        distance_K = jnp.linalg.norm(x_KN - point_N, axis=1)
        weight_K = jnp.where(sent_K, 1.0 / jnp.maximum(distance_K, 1e-6), 0.0)
        return weight_K @ x_KN / jnp.maximum(jnp.sum(weight_K), 1e-30)

    return lax.fori_loop(0, WEISZFELD, nearer, median(x_KN, sent_K))

"""Area under the ROC curve, from histograms that can be added up.

An example's score for a class against all others is the log-odds of its softmax,
shifted by log(C - 1). It is 0 where all classes have equal scores, and as large as the
differences of the scores, on any scale. Bins are logarithmic on both sides of 0: 16 for
each factor of 2, from 2^-18 to 2^6, 768 in all. A pair of examples in one bin counts
one half, so the error is at most half the share of such pairs.
"""

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto.core.types import Array
from jaxproto.metrics.classification import nanmean_over_classes
from jaxproto.metrics.metric import Metric

PER_OCTAVE, LOW, HIGH = 16, -18, 6
SIDE = (HIGH - LOW) * PER_OCTAVE  # bins on each side of 0
BINS = 2 * SIDE


def log_odds(scores_BC: Array) -> Array:
    """Returns log(p / (1 - p)) + log(C - 1) of the softmax [B, C].

    It is exact for small differences, too. It is -inf where a class has no score, and
    inf where no other class has one.
    """
    known_BC = jnp.isfinite(scores_BC)
    score_BC = jnp.where(known_BC, scores_BC, -jnp.inf)
    others = max(score_BC.shape[-1] - 1, 1)
    first_BC = jax.nn.one_hot(jnp.argmax(score_BC, -1), score_BC.shape[-1], dtype=bool)
    best_B1 = jnp.max(score_BC, -1, keepdims=True)
    rest_BC = jnp.where(first_BC, -jnp.inf, score_BC)
    second_B1 = jnp.max(rest_BC, -1, keepdims=True)
    second_B1 = jnp.where(jnp.isfinite(second_B1), second_B1, best_B1 - 1e30)
    # odds of every class but the best: scores of the others relative to the best score
    away_BC = jnp.expm1(score_BC - best_B1)
    mean_BC = (away_BC.sum(-1, keepdims=True) - away_BC) / others
    low_BC = score_BC - best_B1 - jnp.log1p(mean_BC)
    # odds of the best class: scores of the others relative to the second best
    mean_B1 = jnp.where(first_BC, 0.0, jnp.expm1(rest_BC - second_B1)).sum(
        -1, keepdims=True
    )
    high_B1 = best_B1 - second_B1 - jnp.log1p(mean_B1 / others)
    return jnp.where(known_BC, jnp.where(first_BC, high_B1, low_BC), -jnp.inf)


def histogram_bin(odds: Array) -> Array:
    """Returns the bin of log-odds, from 0 to `BINS` - 1, in their order."""
    step = jnp.floor((jnp.log2(jnp.abs(odds)) - LOW) * PER_OCTAVE)
    step = jnp.clip(step, 0, SIDE - 1).astype(jnp.int32)
    return jnp.where(odds >= 0, SIDE + step, SIDE - 1 - step)


def auc(scores_BC: Array, y_B: Array, mask_B: Array) -> Array:
    """Area under the ROC curve, one class against the rest, mean over classes."""
    class_C = jnp.arange(scores_BC.shape[-1])
    own_BC = (y_B[:, None] == class_C).astype(jnp.int32)
    index = class_C, own_BC, histogram_bin(log_odds(scores_BC))
    return jnp.zeros((len(class_C), 2, BINS)).at[index].add(mask_B[:, None])


def auc_from_histogram(count_C2N: np.ndarray) -> float:
    """Returns the value of `auc`, over classes with positive and negative examples."""
    other_CN, own_CN = np.moveaxis(np.asarray(count_C2N, np.float64), 1, 0)
    below_CN = np.cumsum(other_CN, -1) - other_CN / 2
    pairs_C = own_CN.sum(-1) * other_CN.sum(-1)
    return nanmean_over_classes((own_CN * below_CN).sum(-1) / pairs_C)


AUC = Metric(auc, auc_from_histogram, counts=True)

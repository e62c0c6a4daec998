"""Metrics of the probabilities of a prediction rule: loss and calibration error.

Probabilities are the softmax of the scores of a rule. The loss of a classifier trains
them. The scores of prototype rules are negative squared distances, per dimension. No
method trains their scale, so a rule with 90 % accuracy can have probabilities near
1 / C. Compare loss and calibration error of prototype rules within one rule only.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto.core.types import Array
from jaxproto.metrics.classification import correct
from jaxproto.metrics.metric import Metric

WORST = -float(np.log(np.finfo(np.float32).eps))  # 15.94, loss of probability 0
BINS = 15  # of confidence


def log_probabilities(scores_BC: Array) -> Array:
    """Returns the log-probability of every class; -inf for a class without score."""
    known_BC = jnp.isfinite(scores_BC)
    log_BC = jax.nn.log_softmax(jnp.where(known_BC, scores_BC, -jnp.inf))
    return jnp.where(known_BC, log_BC, -jnp.inf)


def loss(scores_BC: Array, y_B: Array, mask_B: Array) -> tuple[Array, Array]:
    """Mean cross-entropy; 15.94 where the true class has no score."""
    log_BC = log_probabilities(scores_BC)
    log_B = jnp.take_along_axis(log_BC, y_B[:, None], 1)[:, 0]
    loss_B = jnp.where(jnp.isfinite(log_B), -log_B, WORST)
    return jnp.sum(loss_B * mask_B), jnp.sum(mask_B)


class Confidences(NamedTuple):
    """Sums by bin of the confidence, the probability of the predicted class."""

    stated: Array  # [15] sums of confidences
    right: Array  # [15] numbers of correct predictions
    examples: Array  # [15] numbers of examples


def ece(scores_BC: Array, y_B: Array, mask_B: Array) -> Confidences:
    """Expected calibration error, in 15 equal bins of confidence."""
    stated_B = jnp.exp(jnp.max(log_probabilities(scores_BC), -1))
    bin_B = jnp.clip(jnp.ceil(stated_B * BINS) - 1, 0, BINS - 1).astype(jnp.int32)
    in_BN = jax.nn.one_hot(bin_B, BINS) * mask_B[:, None]
    right_B = correct(scores_BC, y_B)
    return Confidences(stated_B @ in_BN, right_B @ in_BN, in_BN.sum(0))


def calibration_error(sums: Confidences) -> np.ndarray:
    """Returns the value of `ece`: the mean gap between accuracy and confidence."""
    return np.abs(sums.right - sums.stated).sum() / sums.examples.sum()


LOSS = Metric(loss, least=True)
ECE = Metric(ece, calibration_error, least=True, counts=True)

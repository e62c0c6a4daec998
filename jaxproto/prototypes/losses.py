"""Losses of a batch: cross-entropy and pulls of features towards prototypes.

There is one function per reading of the prototype term (docs/decisions.md#pull). Each
is `(protos, feat_BD, y_B, weight_B, emphasis_C) -> scalar`; weight 0 leaves an example
out of the mean, classes without a prototype contribute 0 but still count in the mean
(as released), and the emphasis multiplies a class's term (CPKD; 1 for all by default).
N is the paper ProtoNorm.
"""

from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax

from jaxproto.core.types import Array, Batch, Net, NetOutput, Protos, Tree
from jaxproto.prototypes.kernels import class_sum, mean_of


def mean_over(value_B: Array, mask_B: Array) -> Array:
    """Averages over the examples with mask 1; 0 if there is none."""
    return jnp.sum(value_B * mask_B) / jnp.maximum(jnp.sum(mask_B), 1.0)


def cross_entropy(logits_BC: Array, y_B: Array, mask_B: Array) -> Array:
    """Returns the mean cross-entropy over the examples with mask 1."""
    value_B = optax.softmax_cross_entropy_with_integer_labels(logits_BC, y_B)
    return mean_over(value_B, mask_B)


def output_and_ce(
    net: Net, params: Tree, norm: Tree, batch: Batch
) -> tuple[NetOutput, Array]:
    """Returns the output of a network in training, and its mean cross-entropy."""
    out = net.apply(params, norm, batch.x, True, batch.key)
    return out, cross_entropy(out.logits, batch.y, batch.mask)


def kl_mean(teacher_BC: Array, student_BC: Array, mask_B: Array) -> Array:
    """Returns KL(softmax(teacher) | softmax(student)), the mean over all entries.

    PyTorch's KLDivLoss "mean": a class count times smaller than the mean divergence.
    """
    log_q, log_p = jax.nn.log_softmax(teacher_BC), jax.nn.log_softmax(student_BC)
    value_B = optax.losses.kl_divergence_with_log_targets(log_p, log_q)
    return mean_over(value_B, mask_B) / teacher_BC.shape[-1]


def soft_cross_entropy(logits_BC: Array, target_BC: Array, mask_B: Array) -> Array:
    """Returns the mean cross-entropy with targets of any sum."""
    return mean_over(optax.softmax_cross_entropy(logits_BC, target_BC), mask_B)


def mse(a_BD: Array, b_BD: Array, mask_B: Array) -> Array:
    """Returns the mean squared difference over examples and dimensions."""
    return mean_over(jnp.mean((a_BD - b_BD) ** 2, -1), mask_B)


def sq_l2_mean(
    protos: Protos,
    feat_BD: Array,
    y_B: Array,
    weight_B: Array,
    emphasis_C: Array | None = None,
) -> Array:
    """Returns the mean squared distance to the prototype of the example's class."""
    chex.assert_rank([feat_BD, y_B, weight_B], [2, 1, 1])
    target = jax.lax.stop_gradient(protos)
    gap_BD = feat_BD - target.mean[y_B]
    seen_B = (target.count[y_B] > 0).astype(feat_BD.dtype)
    if emphasis_C is not None:
        seen_B = seen_B * emphasis_C[y_B]
    return mean_over(jnp.sum(gap_BD**2, -1) * seen_B, weight_B)


def mse_mean(protos: Protos, feat_BD: Array, *args: Any) -> Array:
    """Returns the mean squared difference to the prototype, as all released code."""
    return sq_l2_mean(protos, feat_BD, *args) / feat_BD.shape[-1]


def l2_of_means(
    protos: Protos,
    feat_BD: Array,
    y_B: Array,
    weight_B: Array,
    emphasis_C: Array | None = None,
) -> Array:
    """Sums |mean of the batch's features - prototype|_2 over classes (N Eq. 5, 15).

    The papers do not define the local prototype within a step; here it is the mean over
    the batch's examples of the class.
    """
    target = jax.lax.stop_gradient(protos)
    own = mean_of(class_sum(feat_BD, y_B, weight_B, len(target.count)))
    both_C = (own.count > 0) & (target.count > 0)
    square_C = jnp.sum((own.mean - target.mean) ** 2, -1)
    away_C = both_C & (square_C > 0)  # the root has no gradient at 0
    root_C = jnp.where(away_C, jnp.sqrt(jnp.where(away_C, square_C, 1.0)), 0.0)
    return jnp.sum(root_C if emphasis_C is None else root_C * emphasis_C)


# The pull of every method that has one, and its weight, unless a configuration says
# otherwise: all released code has them, and the papers' tables were made with them.
# The papers write a distance of class means with weight 1 or 0.1 (variants `paper`).
PULL, LAM = mse_mean, 10.0

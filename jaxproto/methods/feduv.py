"""FedUV: FedAvg with regularisers towards outputs and features of IID data.

Son, Kim, Chung, Huang, Liu: FedUV: Uniformity and Variance for Heterogeneous Federated
Learning, CVPR 2024, https://arxiv.org/abs/2402.18372.

    V = mean_k relu(1 / sqrt(C) - std_b softmax(z)_bk)
    U = mean_{b < b'} exp(-|p_b - p_b'|^2 / median of the distances above 0, squared)
    loss = CE + variance V + uniformity U

1 / sqrt(C) is the standard deviation of a column of the identity matrix, which are the
outputs of a perfect classifier on one example of each class.

Deviations (paper / released code / here), besides those of FedAvg:
- BatchNorm statistics: not stated / in the average / local; `statistics=averaged` is as
  the code.
- median: not stated / attached, the lower of two in the middle / as the code.
- repeats in the batch of a client below one batch: cannot be / not seen by V and U.
- learning rate: 0.01 / cosine over rounds / constant; variant `code` of its
  configuration has the cosine.
- evaluation in ProtoNorm's (N) Table 3: not stated / global / both.
"""

import dataclasses

import jax
import jax.numpy as jnp

from jaxproto.core.hyperparameters import NonNegative
from jaxproto.core.method import Method
from jaxproto.core.types import Array, LossAux, Spec
from jaxproto.methods.fedavg import Statistical, fedavg, local_statistics
from jaxproto.prototypes import kernels, losses


@kernels.float32_matmuls
def variance_gap(logits_BC: Array, mask_B: Array) -> Array:
    """Computes V: mean over classes of the deficit in the outputs' deviation."""
    p_BC, count = jax.nn.softmax(logits_BC), jnp.sum(mask_B)
    mean_C = mask_B @ p_BC / jnp.maximum(count, 1.0)
    square_C = mask_B @ (p_BC - mean_C) ** 2 / jnp.maximum(count - 1.0, 1.0)
    above_C = square_C > 0  # the root has no gradient at 0
    std_C = jnp.where(above_C, jnp.sqrt(jnp.where(above_C, square_C, 1.0)), 0.0)
    gap_C = jax.nn.relu(logits_BC.shape[-1] ** -0.5 - std_C)
    return jnp.where(count > 1, jnp.mean(gap_C), 0.0)  # one example has no deviation


def uniformity_loss(feat_BD: Array, mask_B: Array) -> Array:
    """Computes U: mean Gaussian potential of pairs of features; 0 without a pair."""
    square_BB = jnp.sum((feat_BD[:, None] - feat_BD) ** 2, -1)
    pair_BB = jnp.triu(mask_B[:, None] * mask_B, 1)
    apart_BB = (square_BB > 0) & (pair_BB > 0)
    sorted_P = jnp.sort(jnp.where(apart_BB, square_BB, jnp.inf), axis=None)
    middle = sorted_P[jnp.maximum(jnp.sum(apart_BB) - 1, 0) // 2]
    median = jnp.where(jnp.any(apart_BB), middle, 1.0)
    potential = jnp.sum(jnp.exp(-square_BB / median) * pair_BB)
    return potential / jnp.maximum(jnp.sum(pair_BB), 1.0)


def feduv(
    spec: Spec,
    *,
    variance: NonNegative = 2.5,
    uniformity: NonNegative = 0.5,
    statistics: Statistical = local_statistics,
) -> Method:
    """FedUV; with both weights 0 it is FedAvg.

    Args:
      variance: weight of V, the classifier's variance (N Table 6, released code).
      uniformity: weight of U, the features' uniformity (N Table 6, released code).
    """
    base = fedavg(spec)

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        v = variance_gap(out.logits, batch.mask)
        u = uniformity_loss(out.feat, batch.mask)
        return ce + variance * v + uniformity * u, LossAux({"net": out.norm})

    return statistics(dataclasses.replace(base, loss=loss, title="FedUV"))

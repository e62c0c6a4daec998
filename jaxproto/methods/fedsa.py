"""FedSA: features and classifiers follow anchors that move slowly to the prototypes.

Zhou, Qu, You, Zhou, Tang, Zheng, Cai, Wu: FedSA: A Unified Representation Learning via
Semantic Anchors for Prototype-based Federated Learning, AAAI 2025,
https://arxiv.org/abs/2501.05496. The equations are those of its released code,
https://github.com/lokinko/FedSA. With anchors a_j, features f and the own head phi:

    gap    = mean over classes of the distance to the next anchor, or to the next of the
             client's last prototypes if that is more
    d_j    = |f(x) - a_j|, for j = y plus the gap
    loss   = CE + lam mean over dimensions of (f(x) - a_y)^2
             + contrastive CE(-d, y) + calibration mean_j CE(phi(a_j), j)
    a_j    = keep a_j + (1 - keep) c_j

where c_j is the mean over clients of their prototypes of class j. The first anchors are
random points behind a random network with two hidden layers.

Deviations (released code / here):
- local prototypes: of the training steps / after training, over all examples.
- first network: with biases / without those before BatchNorm, which change nothing.
- lam: an option, 1 / `lam`, 1.
- prediction: nearest mean c_j, which clients do not receive / nearest anchor (`global`,
  `global_own`), nearest own prototype (`local`), own head (`head`).
"""

import dataclasses

import jax
import jax.numpy as jnp
import optax

from jaxproto.core.hyperparameters import NonNegative, Share
from jaxproto.core.method import Method
from jaxproto.core.types import Array, LossAux, Protos, Spec
from jaxproto.methods.fedhp import distances
from jaxproto.methods.fedproto import fedproto
from jaxproto.prototypes import kernels, losses


def first_anchors(spec: Spec, key: Array) -> Array:
    """Draws points [C, D], and maps them by two layers with BatchNorm and ReLU."""
    point_key, *keys = jax.random.split(key, 3)
    h = jax.random.normal(point_key, tuple(spec))
    for key in keys:
        bound = spec.feat_dim**-0.5
        shape = spec.feat_dim, spec.feat_dim
        kernel = jax.random.uniform(key, shape, minval=-bound, maxval=bound)
        h = jax.nn.relu(jax.nn.standardize(h @ kernel, axis=0))
    return h


def gap(protos: Protos) -> Array:
    """Returns the mean distance of a prototype to the next one; 0 below two of them."""
    here_C = protos.count > 0
    pair_CC = kernels.distinct_pairs(here_C)
    away_CC = distances(protos.mean, protos.mean)
    next_C = jnp.min(jnp.where(pair_CC, away_CC, jnp.inf), 1)
    next_C = jnp.where(jnp.any(pair_CC, 1), next_C, 0.0)
    return jnp.sum(next_C) / jnp.maximum(jnp.sum(jnp.any(pair_CC, 1)), 1)


def fedsa(
    spec: Spec,
    *,
    lam: NonNegative = 1.0,
    contrastive: NonNegative = 1.0,
    calibration: NonNegative = 1.0,
    keep: Share = 0.9999,
) -> Method:
    """FedSA.

    Args:
      lam: weight of the distance to the anchor of the class.
      contrastive: weight of the contrast of anchors with a gap (code: 1).
      calibration: weight of the cross-entropy of anchors (code: 1).
      keep: share of an anchor that stays in a round (code: 0.9999).
    """
    every_C = jnp.arange(spec.num_classes)

    def init_server(net, key):
        return Protos(first_anchors(spec, key), jnp.ones(spec.num_classes))

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        pull = losses.mse_mean(down, out.feat, batch.y, batch.mask)
        margin = jnp.maximum(gap(down), gap(client.memory))
        own_BC = jax.nn.one_hot(batch.y, spec.num_classes)
        away_BC = distances(out.feat, down.mean) + margin * own_BC
        near = losses.cross_entropy(-away_BC, batch.y, batch.mask)
        logits_CC = net.head(params["net"]["head"], down.mean)
        calibrated = losses.cross_entropy(logits_CC, every_C, down.count)
        value = ce + lam * pull + contrastive * near + calibration * calibrated
        return value, LossAux({"net": out.norm})

    def update(net, server, up, key):
        new = kernels.mean_over_clients(up)
        moved_CD = optax.incremental_update(new.mean, server.mean, 1 - keep)
        here_C1 = new.count[:, None] > 0
        return server.replace(mean=jnp.where(here_C1, moved_CD, server.mean))

    return dataclasses.replace(
        fedproto(spec),
        init_server=init_server,
        broadcast=lambda server: server,
        loss=loss,
        update=update,
        title="FedSA",
        nominal=None,
    )

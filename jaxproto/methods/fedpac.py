"""FedPAC: a shared body, and for each client its own combination of all heads.

Xu, Tong, Huang: Personalized Federated Learning with Feature Alignment and Classifier
Collaboration, ICLR 2023, https://arxiv.org/abs/2306.11867. Client i trains its head
phi_i first, then the body theta that all share, with global prototypes c_j of features:

    loss  = CE(phi_i(theta(x)), y) + lam |theta(x) - c_y|^2
    theta = sum_i (n_i / n) theta_i
    c_j   = sum_i n_ij c_ij / sum_i n_ij

The head that client i gets is sum_k a_k phi_k. The weights a, which are >= 0 with sum
1, minimise variance and bias of that combination on the client's features,

    sum_k a_k^2 v_k + sum_j |sum_k a_k (h_ij - h_kj)|^2

where h_ij = (n_ij / n_i) times the mean feature of class j in client i before training,
and v_i = (mean |theta(x)|^2 - sum_j |h_ij|^2) / n_i.

The equations are those of the released code and of the paper's abstract.

PFLlib's copy of that code has a plain mean of prototypes, overwrites heads that it has
yet to combine, and may give a client the combination of another.

Deviations (paper / released code, https://github.com/JianXu95/FedPAC / here):
- pull: squared distance / mean over dimensions, from round 2 / the same.
- a class without global prototype: - / own one before training / no pull.
- steps of the head: one epoch / one epoch, learning rate 0.1 / the first `head_share`
  of all steps, one optimiser.
- the minimum: a quadratic program / cvxpy, weights under 0.001 cut / 200 accelerated
  projected gradient steps, weights under 0.001 cut.
- a client that does not report: - / keeps its head / the server keeps its last head.
- BatchNorm statistics: not stated / averaged / each client's own.
- prediction: own network after training / the same / that (`head`), own combination on
  the received body (`received`).
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from jaxproto.core.batches import sum_over_batches
from jaxproto.core.hyperparameters import NonNegative, Share
from jaxproto.core.method import Method, own_features
from jaxproto.core.types import Array, LossAux, PerClient, Protos, Spec, Tree
from jaxproto.methods.fedavg import received_as, weighted_mean
from jaxproto.methods.fedper import with_parts
from jaxproto.methods.fedproto import class_means
from jaxproto.methods.fedrep import fedrep
from jaxproto.prototypes import kernels, losses
from jaxproto.prototypes.transforms import apply, hide_count, show_count

STEPS = 200  # of the minimisation
CUT = 1e-3  # weights below it become 0
NOWHERE = -1e9  # far from the simplex


class FedPACState(NamedTuple):
    """State of the server, and its broadcast."""

    body: Tree
    heads: PerClient  # [N, ...]
    protos: Protos


class FedPACUpload(NamedTuple):
    """Upload of a client."""

    body: Tree
    head: Tree
    protos: Protos  # c_ij, after training, with n_ij
    before: Protos  # mean features before training
    spread: Array  # [] v_i
    id: Array  # [] of the client


def combination(spread_K: Array, h_KD: Array, i: Array, there_K: Array) -> Array:
    """Returns the weights [K] of all heads for client i.

    Args:
      spread_K: v_k.
      h_KD: h_kj of all classes as one vector.
      there_K: whether an upload has arrived; others have weight 0.
    """
    away_KD = h_KD[i] - h_KD
    form_KK = jnp.diag(spread_K) + away_KD @ away_KD.T
    form_KK = jnp.where(there_K & there_K[:, None], form_KK, 0.0)
    rate = 1 / jnp.maximum(jnp.max(jnp.sum(jnp.abs(form_KK), 1)), 1e-12)

    def project(a_K):
        a_K = jnp.where(there_K, a_K, NOWHERE)
        return optax.projections.projection_simplex(a_K)

    def step(s, now):
        a_K, last_K = now
        ahead_K = a_K + s / (s + 3.0) * (a_K - last_K)
        return project(ahead_K - rate * form_KK @ ahead_K), a_K

    first_K = project(jnp.zeros(len(there_K)))
    a_K, _ = lax.fori_loop(0, STEPS, step, (first_K, first_K))
    a_K = jnp.where(a_K < CUT, 0.0, a_K)
    return a_K / jnp.maximum(jnp.sum(a_K), CUT)


def fedpac(
    spec: Spec,
    *,
    lam: NonNegative = 1.0,
    head_share: Share = 0.5,
    num_clients: int | None = None,
) -> Method:
    """FedPAC.

    Args:
      lam: weight of the pull towards prototypes (code: 1).
      head_share: of the local steps train the head, the others the body.
      num_clients: N; None is 1. From a configuration it is filled in.
    """
    num_heads = num_clients or 1

    def init_server(net, key):
        params = net.init(key)[0]
        heads = jax.tree.map(lambda a: jnp.stack([a] * num_heads), params["head"])
        protos = kernels.no_prototypes(*spec)
        return FedPACState(params["body"], PerClient(heads), protos)

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        pull = losses.mse_mean(down.protos, out.feat, batch.y, batch.mask)
        return ce + lam * pull, LossAux({"net": out.norm})

    def upload(net, before, after, data, down, sums):
        def square(b):
            feat_BD = own_features(net, before, b.x)
            return jnp.sum(b.mask * jnp.sum(feat_BD**2, -1))

        size = jnp.maximum(jnp.sum(before.count), 1.0)
        first = class_means(net, before, data, spec.num_classes)
        last = class_means(net, after, data, spec.num_classes)
        h_CD = first.mean * (before.count / size)[:, None]
        spread = sum_over_batches(square, data) / size - jnp.sum(h_CD**2)
        own = after.params["net"]
        protos = apply(show_count(), last.replace(count=after.count))
        return FedPACUpload(
            own["body"],
            own["head"],
            protos,
            apply(hide_count(), first),
            spread / size,
            after.id,
        ), after.memory

    def update(net, server, up, key):
        size_K = jnp.sum(up.protos.count, 1)
        there_K = size_K > 0
        share_KC = up.protos.count / jnp.maximum(size_K, 1.0)[:, None]
        h_KD = (up.before.mean * share_KC[..., None]).reshape(len(size_K), -1)

        def head(i):
            a_K = combination(up.spread, h_KD, i, there_K)
            return jax.tree.map(lambda w: jnp.tensordot(a_K, w, 1), up.head)

        place_K = jnp.where(there_K, up.id, num_heads)
        heads = jax.tree.map(
            lambda old, new: old.at[place_K].set(new, mode="drop"),
            server.heads.value,
            lax.map(head, jnp.arange(len(size_K))),
        )
        return FedPACState(
            weighted_mean(up.body, size_K, server.body),
            PerClient(heads),
            kernels.mean_over_examples(up.protos),
        )

    def receive(params, down):
        return with_parts(params, body=down.body, head=down.heads)

    return dataclasses.replace(
        fedrep(spec, head_share=head_share),
        init_server=init_server,
        **received_as(receive),
        loss=loss,
        upload=upload,
        update=update,
        client_view=lambda down: down.protos,
        title="FedPAC",
        nominal=None,
    )

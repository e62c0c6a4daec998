"""FedNH: a fixed head of uniform, semantic class prototypes on averaged networks.

Dai, Chen, Li, Heinecke, Sun, Xu: Tackling Data Heterogeneity in Federated Learning with
Class Prototypes, AAAI 2023, https://arxiv.org/abs/2212.02758.

    z_k  = s <p / |p|, W_k>, W fixed while clients train, |W_k| = 1; CE on z
    c_ik = normalised mean over class k of p / |p|, after training, sent with n_ik
    W_k <- normalise(rho W_k + (1 - rho) normalise(sum_i n_ik c_ik / sum_i n_ik))
    w   <- w + server_rate (mean_i w_i - w), of body and scale s, equal weights

W starts orthogonal; in two dimensions its rows are equally spaced on the circle. With
more classes than dimensions its rows are normalised after the orthogonal draw.

Deviations (paper / released code / here), besides those of FedAvg:
- scale: trained / trained, from 1 (CNN) or 20 (ResNet) / trained, from `scale`.
- what is sent: networks and prototypes / the whole state, W and scaled prototypes
  among it / body, scale, and rows of prototypes that are there with their counts. The
  network's own head rests and is not sent.
- confidence weights of prototypes: none / an option, off / none.
- ProtoNorm's fork: not described / W from the default initialisation, scale 1 for every
  network / W as in the paper, scale 1 by default.
- normalisation of ResNet-18: not stated / GroupNorm of two groups; the scripts for Tiny
  ImageNet leave it out of the blocks / that of the network; `resnet18_gn` has groups.
- evaluation: global network / global and, per client, weighted by its labels / both
  networks, `head` with the W that it was trained with: a client that never took part
  has none, and predicts the first class.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.core.hyperparameters import Positive, Share
from jaxproto.core.method import Method, own_features, own_network
from jaxproto.core.types import Array, LossAux, Protos, Spec, Tree
from jaxproto.methods.fedavg import Statistical, fedavg, local_statistics, weighted_mean
from jaxproto.methods.fedper import with_parts
from jaxproto.methods.fedproto import class_means
from jaxproto.prototypes import kernels, losses


class FedNHState(NamedTuple):
    """State of the server, and its broadcast."""

    body: Tree
    scale: Array  # []
    heads: Array  # [C, D] W, rows of length 1


class FedNHUpload(NamedTuple):
    """Upload of a client."""

    body: Tree
    scale: Array  # []
    protos: Protos  # c_ik with n_ik


def uniform_prototypes(key: Array, spec: Spec) -> Array:
    """Draws the first W [C, D]: orthogonal rows of length 1."""
    if spec.feat_dim == 2:
        angle_C = 2 * jnp.pi * jnp.arange(spec.num_classes) / spec.num_classes
        return jnp.stack([jnp.cos(angle_C), jnp.sin(angle_C)], 1)
    return kernels.normalise_rows(jax.nn.initializers.orthogonal()(key, tuple(spec)))


def normalise_rows(feat_BD: Array) -> Array:
    """Scales rows to length 1; a zero row stays, with a finite gradient."""
    square_B1 = jnp.sum(feat_BD**2, -1, keepdims=True)
    return feat_BD * lax.rsqrt(jnp.where(square_B1 > 1e-12, square_B1, 1.0))


def cosines(feat_BD: Array, head_CD: Array) -> Array:
    """Returns <p / |p|, W_k> [B, C]."""
    return normalise_rows(feat_BD) @ head_CD.T


def unit_features(net, client, x) -> Array:
    """Returns features of length 1 [B, D] of the client's own network."""
    return normalise_rows(own_features(net, client, x))


def present_clients(up: FedNHUpload) -> Array:
    """Returns whether each upload arrived [K]."""
    return jnp.sum(up.protos.count, 1) > 0


def fednh(
    spec: Spec,
    *,
    rho: Share = 0.9,
    scale: Positive = 1.0,
    server_rate: Positive = 1.0,
    statistics: Statistical = local_statistics,
) -> Method:
    """FedNH.

    Args:
      rho: share of the old prototypes W that an update keeps (released code).
      scale: s, initial factor of the cosine similarities (released code: 1 for its CNN,
        20 for ResNet-18).
      server_rate: step towards the mean of the networks (released code).
    """

    def init_client(net, key):
        params, norm, _ = own_network(net, key)
        params = {**params, "scale": jnp.asarray(scale, jnp.float32)}
        return params, norm, jnp.zeros(tuple(spec))  # memory: its last W

    def init_server(net, key):
        params = init_client(net, key)[0]
        head_CD = uniform_prototypes(jax.random.fold_in(key, 1), spec)
        return FedNHState(params["net"]["body"], params["scale"], head_CD)

    def receive(params, down):
        return {**with_parts(params, body=down.body), "scale": down.scale}

    def loss(net, params, norm, batch, down, client):
        out = net.apply(params["net"], norm["net"], batch.x, True, batch.key)
        logits_BC = params["scale"] * cosines(out.feat, down.heads)
        ce = losses.cross_entropy(logits_BC, batch.y, batch.mask)
        return ce, LossAux({"net": out.norm})

    def upload(net, before, after, data, down, sums):
        own = class_means(net, after, data, spec.num_classes, unit_features)
        mean_CD = kernels.normalise_rows(own.mean)
        protos = Protos(mean_CD, own.count, disclosed=True)
        body, s = after.params["net"]["body"], after.params["scale"]
        return FedNHUpload(body, s, protos), down.heads

    def update(net, server, up, key):
        old, new = (server.body, server.scale), (up.body, up.scale)
        mean = weighted_mean(new, present_clients(up), old)
        body, s = jax.tree.map(lambda w, m: w + server_rate * (m - w), old, mean)
        seen = kernels.mean_over_examples(up.protos)
        moved_CD = rho * server.heads + (1 - rho) * kernels.normalise_rows(seen.mean)
        seen_C1 = seen.count[:, None] > 0
        heads = jnp.where(seen_C1, kernels.normalise_rows(moved_CD), server.heads)
        return FedNHState(body, s, heads)

    def predict(net, client, x, down):
        def scores(params, head_CD):
            feat = net.apply(params["net"], client.norm["net"], x, False).feat
            return params["scale"] * cosines(feat, head_CD)

        return {
            "head": scores(client.params, client.memory),
            "received": scores(receive(client.params, down), down.heads),
        }

    method = dataclasses.replace(
        fedavg(spec),
        init_client=init_client,
        init_server=init_server,
        receive=receive,
        loss=loss,
        upload=upload,
        update=update,
        title="FedNH",
        predict=predict,
    )
    return statistics(method, present_clients)

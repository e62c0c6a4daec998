"""FPL: FedAvg with several global prototypes of each class, one for each cluster.

Huang, Ye, Shi, Li, Du: Rethinking Federated Learning with Domain Shift: A Prototype
View, CVPR 2023, https://github.com/WenkeHuang/RethinkFL. The server clusters the
clients' prototypes of a class by FINCH: prototypes are linked to their nearest by
cosine, the connected ones are a cluster, and clusters are clustered again by their
means while more than one is left. With the means P of the clusters of class y, those N
of all other classes, and u_y the mean of P,

    s(c)  = exp(cos(f, c) / t)
    L_con = -log(sum_{c in P} s(c) / (sum_{c in P} s(c) + sum_{c in N} s(c)))
    L_reg = |f - u_y|^2
    loss  = CE + L_con + L_reg

The networks are averaged as in FedAvg.

Deviations (paper / the authors' code, also in their benchmark MarsFL / here), besides
those of FedAvg:
- L_reg: sum over dimensions / mean / mean.
- t: 0.02 / 0.02 / `temperature`, 0.02 by default.
- local prototypes: of the trained network / of the last local epoch / after training,
  over all examples.
- a class without prototype: - / contributes 0 to the mean over the batch / the same.
- a class of one client: - / an error if another class has several / one cluster.
- a client that does not report: - / none / none.
- prediction: global network / global network / that (`received`), the client's own
  (`head`), and the nearest prototype of all clusters (`global`).

FINCH: Sarfraz, Sharma, Stiefelhagen: Efficient Parameter-free Clustering Using First
Neighbor Relations, CVPR 2019.
"""

import dataclasses
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.core.hyperparameters import Positive
from jaxproto.core.method import Method, own_features
from jaxproto.core.types import Array, LossAux, Protos, Spec, Tree
from jaxproto.methods import several_prototypes
from jaxproto.methods.fedavg import Statistical, local_statistics, weighted_mean
from jaxproto.methods.fedproc import contrast, fedproc, unit_means
from jaxproto.prototypes import kernels, losses


class FPLState(NamedTuple):
    """State of the server, and its broadcast."""

    params: Tree
    protos: Protos  # [J C, D]: of cluster j and class c in row j C + c


def connected(point_KD: Array, here_K: Array) -> Array:
    """Returns the first point in the group of each point [K].

    Each point is linked to its nearest by cosine. Points that are linked, directly or
    through others, are a group.
    """
    k = len(here_K)
    unit_KD = kernels.normalise_rows(point_KD)
    other_KK = kernels.distinct_pairs(here_K)
    near_KK = jnp.where(other_KK, unit_KD @ unit_KD.T, -jnp.inf)
    link_KK = jax.nn.one_hot(jnp.argmax(near_KK, 1), k, dtype=bool) & other_KK
    reach_KK = link_KK | link_KK.T | jnp.eye(k, dtype=bool)
    for _ in range(_levels(k)):  # paths of 2, 4, 8, ... links
        step_KK = reach_KK.astype(jnp.float32)
        reach_KK = step_KK @ step_KK > 0
    return jnp.argmax(reach_KK, 1)


def clusters(point_KD: Array, here_K: Array, max_clusters: int) -> Protos:
    """Returns means and sizes of the clusters at FINCH's last level with several.

    Args:
      max_clusters: Clusters that are returned, at most.
    """
    index_K = jnp.arange(len(here_K))

    def means(label_K):
        in_KK = (label_K == index_K[:, None]) & here_K
        size_K = jnp.sum(in_KK, 1, dtype=jnp.float32)
        return kernels.mean_of((in_KK.astype(jnp.float32) @ point_KD, size_K))

    def merge(level, label_K):
        current = means(label_K)
        merged_K = connected(current.mean, current.count > 0)[label_K]
        several = jnp.sum(means(merged_K).count > 0) > 1
        return jnp.where(several | (level == 0), merged_K, label_K)

    protos = means(lax.fori_loop(0, _levels(len(here_K)) + 1, merge, index_K))
    order_K = jnp.argsort(protos.count == 0)
    protos = jax.tree.map(lambda a: a[order_K], protos)
    return several_prototypes.resized(protos, max_clusters)


def _levels(k: int) -> int:
    """Returns how often k points can be halved."""
    return math.ceil(math.log2(max(k, 2)))


def fpl(
    spec: Spec,
    *,
    temperature: Positive = 0.02,
    num_clients: int | None = None,
    statistics: Statistical = local_statistics,
) -> Method:
    """FPL.

    Args:
      temperature: t.
      num_clients: a class has at most half as many clusters; None is one cluster. From
        a configuration it is filled in.
    """
    base, max_clusters = fedproc(spec), max((num_clients or 1) // 2, 1)

    def several(down):
        return several_prototypes.by_class(down.protos, spec.num_classes)

    def init_server(net, key):
        rows = kernels.no_prototypes(max_clusters * spec.num_classes, spec.feat_dim)
        return FPLState(base.init_server(net, key).params, rows)

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        protos = several(down)
        unit = unit_means(protos)
        near = contrast(unit, out.feat, batch.y, batch.mask, temperature)
        unbiased = kernels.mean_over_clients(protos)
        pull = losses.mse_mean(unbiased, out.feat, batch.y, batch.mask)
        return ce + near + pull, LossAux({"net": out.norm})

    def update(net, server, up, key):
        params = weighted_mean(up.own.params, up.own.size, server.params)

        def of_class(mean_KD, count_K):
            return clusters(mean_KD, count_K > 0, max_clusters)

        protos = jax.vmap(of_class, 1, 1)(up.protos.mean, up.protos.count)
        return FPLState(params, several_prototypes.in_rows(protos))

    def predict(net, client, x, down):
        feat, rules = own_features(net, client, x), base.predict(net, client, x, down)
        return {**rules, "global": several_prototypes.nearest(feat, several(down))}

    method = dataclasses.replace(
        base,
        init_server=init_server,
        loss=loss,
        update=update,
        predict=predict,
        client_view=lambda down: kernels.mean_over_clients(several(down)),
        title="FPL",
    )
    return statistics(method, lambda up: up.own.size)

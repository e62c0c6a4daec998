"""FedProc: FedAvg whose features are contrasted with global prototypes at first.

Mu, Shen, Cheng, Geng, Fu, Zhang, Zhang: FedProc: Prototypical Contrastive Federated
Learning on Non-IID Data, Future Generation Computer Systems 2023,
https://arxiv.org/abs/2109.12273. With global prototypes c_j, in round t of T:

    l_gpc = -log(exp(cos(f(x), c_y)) / sum_j exp(cos(f(x), c_j)))
    loss  = a l_gpc + (1 - a) CE,    a = 1 - t / T
    c_j   = mean over the clients of their mean of f(x) over the examples of class j

The networks are averaged as in FedAvg.

Deviations (RethinkFL and MarsFL, https://github.com/WenkeHuang, by authors of FPL /
here; no code of FedProc's authors is known), besides those of FedAvg:
- f: features / features; the paper has a projection network of its own.
- t: from 0 to T - 1 of T - 1, round 1 has no gradient / from 1 to T of T.
- temperature: none / `temperature`, 1 by default.
- local prototypes: of the last local epoch / after training, over all examples.
- a class without prototype: contributes 0 to the mean over the batch / the same.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.hyperparameters import Positive
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Array, LossAux, Protos, Spec, Tree
from jaxproto.methods.fedavg import (
    FedAvgUpload,
    Statistical,
    fedavg,
    finish_weighted_mean,
    local_statistics,
    received_as,
    weighted_summand,
)
from jaxproto.methods.fednh import normalise_rows
from jaxproto.methods.fedproto import class_means
from jaxproto.prototypes import kernels, losses
from jaxproto.prototypes.transforms import apply, hide_count

NEVER = -1e9  # a score that no prototype has


class FedProcState(NamedTuple):
    """State of the server, and its broadcast."""

    params: Tree
    protos: Protos
    round: Array  # [] of the state, from 0


class FedProcUpload(NamedTuple):
    """Upload of a client."""

    own: FedAvgUpload
    protos: Protos


def unit_means(protos: Protos) -> Protos:
    """Scales prototypes to length 1."""
    return protos.replace(mean=normalise_rows(protos.mean))


@kernels.float32_matmuls
def contrast(
    protos: Protos,
    feat_BD: Array,
    y_B: Array,
    mask_B: Array,
    temperature: float | Array,
) -> Array:
    """Returns the mean contrastive loss of features and prototypes of their class.

    Features are divided by their length, prototypes are not. An example whose class has
    no prototype contributes 0.

    Args:
      protos: Prototypes [C, D], or several of each class [J, C, D].
    """
    classes, dim = protos.mean.shape[-2:]
    here_P = protos.count.reshape(-1) > 0
    own_BP = here_P & (jnp.arange(len(here_P)) % classes == y_B[:, None])
    mean_PD = protos.mean.reshape(-1, dim)
    score_BP = normalise_rows(feat_BD) @ mean_PD.T / temperature
    every_B = jax.nn.logsumexp(jnp.where(here_P, score_BP, NEVER), 1)
    own_B = jax.nn.logsumexp(jnp.where(own_BP, score_BP, NEVER), 1)
    known_B = jnp.any(own_BP, 1)
    return losses.mean_over(jnp.where(known_B, every_B - own_B, 0.0), mask_B)


def fedproc(
    spec: Spec,
    *,
    temperature: Positive = 1.0,
    rounds: int | None = None,
    statistics: Statistical = local_statistics,
) -> Method:
    """FedProc.

    Args:
      temperature: divisor of the cosines.
      rounds: T; None is the last round, with the cross-entropy alone. From a
        configuration it is filled in.
    """
    base = fedavg(spec)

    def init_server(net, key):
        protos = kernels.no_prototypes(*spec)
        return FedProcState(base.init_server(net, key), protos, jnp.int32(0))

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        unit = unit_means(down.protos)
        near = contrast(unit, out.feat, batch.y, batch.mask, temperature)
        done = jnp.minimum((down.round + 1) / rounds, 1.0) if rounds else 1.0
        return (1 - done) * near + done * ce, LossAux({"net": out.norm})

    def upload(net, before, after, data, down, sums):
        own, memory = base.upload(net, before, after, data, down.params, sums)
        protos = class_means(net, after, data, spec.num_classes)
        return FedProcUpload(own, apply(hide_count(), protos)), memory

    def summand(up):
        here_C = up.protos.count
        sums = up.protos.mean * here_C[:, None], here_C
        return weighted_summand(up.own.params, up.own.size), sums

    def finish(net, server, total, key):
        params = finish_weighted_mean(total[0], server.params)
        return FedProcState(params, kernels.mean_of(total[1]), server.round + 1)

    method = dataclasses.replace(
        base,
        init_server=init_server,
        **received_as(lambda params, down: down.params),
        loss=loss,
        upload=upload,
        update=Aggregation(finish, summand),
        title="FedProc",
        nominal=None,
    )
    return statistics(method, lambda up: up.own.size)

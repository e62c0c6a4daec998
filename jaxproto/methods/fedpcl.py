"""FedPCL: features are contrasted with the prototypes of all clients.

Tan, Long, Ma, Liu, Zhou, Jiang: Federated Learning from Pre-Trained Models: A
Contrastive Learning Approach, NeurIPS 2022, https://arxiv.org/abs/2209.10083. With
features f of length 1, the prototypes c_kj of client k and their mean c_j over clients,

    c_kj = mean of f(x) over the examples of class j, after training
    L_g  = -log(exp(f c_y / t) / sum_j exp(f c_j / t))
    L_p  = mean over clients k of the same with c_kj
    loss = L_g + L_p

Classes that client k does not hold have c_j in place of c_kj.

The authors' code, https://github.com/yuetan031/FedPCL, has another loss: c_ky against
the features of the batch, -log(exp(c_ky f / t) / sum_f' exp(c_ky f' / t)) averaged over
the other features f of class y, summed over k, without L_g. What it sends, averages and
fills in is the same as here.

Deviations (paper / PFLlib / here):
- features: of several frozen pre-trained networks, after a trained projection / of the
  network / of the network, which is trained.
- classes in the sums: - / all / all that have a prototype.
- c_y: - / in the order in which a client met the classes, not that of y / of class y.
- t: 0.07 / an option / `temperature`, 0.07 by default.
- first round: - / prototypes alone, no training / the same.
- clients of L_p that did not report in the last round: - / their last prototypes / not
  there.
- prediction: nearest own prototype / largest product with it / nearest own prototype
  (`head`), global ones (`global`, `global_own`).
- gradients: - / clipped to norm 10 / `optimizer.clip_norm`.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.hyperparameters import Positive
from jaxproto.core.method import Method
from jaxproto.core.types import LossAux, Protos, Spec
from jaxproto.methods import several_prototypes
from jaxproto.methods.fednh import unit_features
from jaxproto.methods.fedproc import contrast
from jaxproto.methods.fedproto import class_means, fedproto, prototype_scores
from jaxproto.prototypes import kernels, losses
from jaxproto.prototypes.transforms import CARRY_OVER, apply, hide_count


class FedPCLState(NamedTuple):
    """State of the server, and its broadcast."""

    protos: Protos  # [C, D] c_j
    each: Protos  # [N C, D] c_kj in row k C + j


def fedpcl(
    spec: Spec, *, temperature: Positive = 0.07, num_clients: int | None = None
) -> Method:
    """FedPCL.

    Args:
      temperature: t.
      num_clients: N; None leaves L_p out. From a configuration it is filled in.
    """
    classes, clients = spec.num_classes, num_clients or 0

    def init_server(net, key):
        each = kernels.no_prototypes(clients * classes, spec.feat_dim)
        return FedPCLState(kernels.no_prototypes(*spec), each)

    def loss(net, params, norm, batch, down, client):
        out = net.apply(params["net"], norm["net"], batch.x, True, batch.key)

        def near(protos):
            return contrast(protos, out.feat, batch.y, batch.mask, temperature)

        def of_client(own):
            filled, _ = CARRY_OVER.update(own, down.protos)  # c_j in the gaps
            return near(filled)

        each = several_prototypes.by_class(down.each, classes)
        here_K = jnp.any(each.count > 0, 1).astype(jnp.float32)
        value = near(down.protos)
        if clients:
            value += losses.mean_over(jax.vmap(of_client)(each), here_K)
        return value, LossAux({"net": out.norm})

    def upload(net, before, after, data, down, sums):
        own = class_means(net, after, data, classes, unit_features)
        return apply(hide_count(), own), own

    def update(net, server, up, key):
        each = several_prototypes.in_rows(several_prototypes.resized(up, clients))
        return FedPCLState(kernels.mean_over_clients(up), each)

    def predict(net, client, x, down):
        scores = prototype_scores(unit_features(net, client, x), client, down.protos)
        return {"head": scores.pop("local"), **scores}

    return dataclasses.replace(
        fedproto(spec),
        init_server=init_server,
        broadcast=lambda server: server,
        loss=loss,
        upload=upload,
        update=update,
        predict=predict,
        features=unit_features,
        client_view=lambda down: down.protos,
        title="FedPCL",
        nominal=None,
    )

"""FedMRL: a small shared network whose features are fused with the client's own.

Yi, Yu, Ren, Wang, Liu, Li: Federated Model Heterogeneous Matryoshka Representation
Learning, NeurIPS 2024, https://arxiv.org/abs/2406.00488. With features g of the shared
network, d' of them, and f of the client's, d of them, a projector P of the client fuses
both to r of d entries. The head of the shared network sees the first d' of them:

    r    = P [g, f]
    loss = CE(head_shared(r[:d']), y) + CE(head_own(r), y)

The shared network is averaged as in FedAvg. The equations are those of HtFLlib's code
and of summaries of the paper, whose text was not read.

Deviations (paper / HtFLlib, https://github.com/TsingZ0/HtFLlib / here):
- d': several / 128 of 512 / `aux_dim`, d at most.
- shared network: a small CNN / the first of the group, or a small CNN / `aux`.
- mean: weighted by examples / plain / weighted by examples.
- P after a round: kept / not saved, so that every round begins with the first / kept.
- BatchNorm statistics of the shared network: not stated / every round those of the
  server / each client's own.
- prediction: r with the own head / the same / that (`head`), and r[:d'] with the head
  of the shared network (`aux`).
"""

import jax
from jax import numpy as jnp

from jaxproto.core.hyperparameters import Count
from jaxproto.core.method import Method
from jaxproto.core.types import LossAux, Net, Spec
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import averaged_part
from jaxproto.methods.fml import init_both
from jaxproto.methods.refprotofl import linear
from jaxproto.prototypes import losses


def fedmrl(spec: Spec, *, aux: Net, aux_dim: Count = 128) -> Method:
    """FedMRL.

    Args:
      spec: number of classes and feature dimension d.
      aux: the shared network.
      aux_dim: d', features of the shared network.
    """
    shared_dim = min(aux_dim, spec.feat_dim)

    def init_client(net, key):
        params, norm, memory = init_both(aux, net, key)
        width = shared_dim + spec.feat_dim
        layer = linear(jax.random.fold_in(key, 2), width, spec.feat_dim)
        return {**params, "projector": layer}, norm, memory

    def both_logits(net, params, own_feat, aux_feat):
        layer, feat = params["projector"], jnp.concatenate([aux_feat, own_feat], 1)
        fused = feat @ layer["kernel"] + layer["bias"]
        shared = aux.head(params["aux"]["head"], fused[:, :shared_dim])
        return net.head(params["net"]["head"], fused), shared

    def loss(net, params, norm, batch, down, client):
        own = net.apply(params["net"], norm["net"], batch.x, True, batch.key)
        other = aux.apply(params["aux"], norm["aux"], batch.x, True, batch.key)
        logits = both_logits(net, params, own.feat, other.feat)
        ce = sum(losses.cross_entropy(a, batch.y, batch.mask) for a in logits)
        return ce, LossAux({"net": own.norm, "aux": other.norm})

    def predict(net, client, x, down):
        params, norm = client.params, client.norm
        own = net.apply(params["net"], norm["net"], x, False).feat
        other = aux.apply(params["aux"], norm["aux"], x, False).feat
        head, shared = both_logits(net, params, own, other)
        return {"head": head, "aux": shared}

    return Method(
        init_client=init_client,
        init_server=lambda net, key: aux.init(key)[0],
        receive=lambda params, down: {**params, "aux": down},
        loss=loss,
        **averaged_part(lambda params: params["aux"]),
        predict=predict,
        title="FedMRL",
        nominal=nominal.networks("aux"),
    )

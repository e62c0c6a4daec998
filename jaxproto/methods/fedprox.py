"""FedProx: FedAvg with a proximal term towards the global network.

Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated Optimization in Heterogeneous
Networks, MLSys 2020, https://arxiv.org/abs/1812.06127.

    h(w) = CE(w) + mu / 2 * |w - w_global|^2                                (Eq. 2)

Deviations (paper / released code / here), besides those of FedAvg:
- mu: tuned among 0.001, 0.01, 0.1, 1 / 0 of its command (PFLlib: the same), 0.01 of its
  optimiser class, 1 in the README's commands (VHL, FedUV: the same) / 0.01.
- term: in the loss / mu (w - w_global) added to the gradient / in the loss, of which
  that is the gradient.
- sampling and mean: by n_i with equal weights / uniform with weights n_i / as FedAvg.
- local work: gamma-inexact, stragglers send what they have / E epochs, stragglers a
  uniformly drawn number from 1 to below E / E epochs, no stragglers.
"""

import dataclasses

import optax

from jaxproto.core.hyperparameters import NonNegative
from jaxproto.core.method import Method
from jaxproto.core.types import Spec
from jaxproto.methods.fedavg import Statistical, fedavg, local_statistics


def fedprox(
    spec: Spec, *, mu: NonNegative = 0.01, statistics: Statistical = local_statistics
) -> Method:
    """FedProx; `mu=0.0` is FedAvg.

    Args:
      mu: weight of the proximal term (RefProtoFL does not state it).
    """
    base = fedavg(spec)

    def loss(net, params, norm, batch, down, client):
        ce, aux = base.loss(net, params, norm, batch, down, client)
        gap = optax.tree.sub(params, down)
        return ce + mu / 2 * optax.tree.norm(gap, squared=True), aux  # Eq. 2

    return statistics(dataclasses.replace(base, loss=loss, title="FedProx"))

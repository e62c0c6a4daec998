"""MOON: FedAvg whose features stay close to those of the global network.

Li, He, Song: Model-Contrastive Federated Learning, CVPR 2021,
https://arxiv.org/abs/2103.16257. With the features z of the network in training, z_glob
of the received network and z_prev of the client's network at the end of its last round,

    l_con = -log(exp(p / t) / (exp(p / t) + exp(n / t))),  p = cos(z, z_glob),
                                                           n = cos(z, z_prev)
    loss  = CE + mu l_con

Deviations (paper / released code, https://github.com/QinbinLi/MOON / here), besides
those of FedAvg:
- z: after a projection head of two layers / the same / features of the network.
- mu: tuned / 1 by default / 1.
- first round: not stated / z_prev of the client's initial network / as code.
- BatchNorm of z_glob and z_prev: not stated / running statistics / running ones, of
  z_glob the client's own or the received mean (`statistics`).
- previous networks: the last one / any number of them / the last one.
"""

import dataclasses
import functools

import jax
import optax

from jaxproto.core.hyperparameters import NonNegative, Positive
from jaxproto.core.method import Method, own_network
from jaxproto.core.types import LossAux, Spec
from jaxproto.methods.fedavg import Statistical, fedavg, local_statistics
from jaxproto.prototypes import losses

# Cosine of each pair of rows; 0 for a zero row
cosine = functools.partial(optax.losses.cosine_similarity, epsilon=1e-6)


def moon(
    spec: Spec,
    *,
    contrastive: NonNegative = 1.0,
    temperature: Positive = 0.5,
    statistics: Statistical = local_statistics,
) -> Method:
    """MOON; `contrastive=0.0` is FedAvg.

    Args:
      contrastive: mu, weight of the model-contrastive term.
      temperature: t of the model-contrastive term.
    """
    base = fedavg(spec)

    def init_client(net, key):
        params, norm, _ = own_network(net, key)
        return params, norm, (params["net"], norm["net"])  # the previous network

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        received = net.apply(down["net"], client.norm["net"], batch.x, False).feat
        previous = net.apply(*client.memory, batch.x, False).feat
        gap_B = cosine(out.feat, previous) - cosine(out.feat, received)
        term = losses.mean_over(jax.nn.softplus(gap_B / temperature), batch.mask)
        return ce + contrastive * term, LossAux({"net": out.norm})

    def upload(net, before, after, data, down, sums):
        up, _ = base.upload(net, before, after, data, down, sums)
        return up, (after.params["net"], after.norm["net"])

    method = dataclasses.replace(
        base, init_client=init_client, loss=loss, upload=upload, title="MOON"
    )
    return statistics(method)

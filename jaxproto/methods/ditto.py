"""Ditto: a personal network that stays near the one that FedAvg trains.

Li, Hu, Beirami, Smith: Ditto: Fair and Robust Federated Learning Through
Personalization, ICML 2021, https://arxiv.org/abs/2012.04221. Client i trains a copy w_i
of the global network w for the server, and a network v_i of its own:

    w_i: local steps of SGD on CE(w_i) from w;    w = sum_i (n_i / n) w_i
    v_i: local steps of SGD on CE(v_i) + mu / 2 |v_i - w|^2              (Algorithm 1)

Deviations (paper / released code, https://github.com/litian96/ditto / here):
- order: w_i, then v_i, each with its own number of steps / both take a step on each
  batch / as code.
- mean: any aggregation / of clients drawn by n_i, equal weights / weights n_i.
- first v_i: not stated / one network for all / drawn for the client.
- mu, the paper's lambda: tuned among several, per client as well / 1 in its scripts / 1
  for all clients.
- BatchNorm statistics: not stated / none / each network's own, on the client.
- prediction: v_i (`head`) / the same / that, and the global network (`received`).
"""

import dataclasses

import optax

from jaxproto.core.hyperparameters import NonNegative
from jaxproto.core.method import Method, own_network
from jaxproto.core.types import LossAux, Spec
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import averaged_part
from jaxproto.methods.local import local
from jaxproto.prototypes import losses


def ditto(spec: Spec, *, mu: NonNegative = 1.0) -> Method:
    """Ditto; `mu=0.0` trains the personal networks alone.

    Args:
      mu: lambda, weight of the distance to the global network.
    """

    def init_client(net, key):
        params, norm, memory = own_network(net, key)
        return {**params, "aux": params["net"]}, {**norm, "aux": norm["net"]}, memory

    def loss(net, params, norm, batch, down, client):
        own, ce_v = losses.output_and_ce(net, params["net"], norm["net"], batch)
        copy, ce_w = losses.output_and_ce(net, params["aux"], norm["aux"], batch)
        gap = optax.tree.sub(params["net"], down)
        value = ce_v + mu / 2 * optax.tree.norm(gap, squared=True) + ce_w
        return value, LossAux({"net": own.norm, "aux": copy.norm})

    def predict(net, client, x, down):
        own = net.apply(client.params["net"], client.norm["net"], x, False)
        received = net.apply(down, client.norm["aux"], x, False)
        return {"head": own.logits, "received": received.logits}

    return dataclasses.replace(
        local(spec),
        init_client=init_client,
        init_server=lambda net, key: net.init(key)[0],
        receive=lambda params, down: {**params, "aux": down},
        loss=loss,
        **averaged_part(lambda params: params["aux"]),
        predict=predict,
        title="Ditto",
        homogeneous=True,
        nominal=nominal.networks("aux"),
    )

"""FedDyn: FedAvg with a local regulariser that follows the client's gradient.

Acar, Zhao, Matas, Mattina, Whatmough, Saligrama: Federated Learning Based on Dynamic
Regularization, ICLR 2021, https://arxiv.org/abs/2111.04263. With w of the server, the
gradient g_i of client i at the end of its last round, at first 0, and N clients
(Algorithm 1):

    loss = CE(w_i) - <g_i, w_i> + mu / 2 |w_i - w|^2          local steps from w
    g_i <- g_i - mu (w_i - w)
    h   <- h - mu sum_i (w_i - w) / N                         clients that report
    w   <- mean_i w_i - h / mu

The server keeps -h / mu, which does not depend on mu.

Deviations (paper / released code, https://github.com/alpemreacar/FedDyn / here),
besides those of FedAvg:
- mu, the paper's alpha: tuned / 0.01 in its example, for client i divided by its share
  n_i N / n of the examples / 0.01, equal for all clients.
- gradients: - / clipped to norm 10 before mu w_i is added / `optimizer.clip_norm`.
- evaluation: w / the mean of the networks that report, and of all clients' last ones,
  not w / w (`received`) and the client's network after training (`head`).
- a client without a step (`local.short=skip`): cannot be / - / sends nothing.
- BatchNorm statistics: not stated / none / local, or their mean (`statistics`).
- loss in the records: the local objective / cross-entropy / without the linear term.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from jaxproto.core.hyperparameters import Positive
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Array, Spec, Tree
from jaxproto.methods.fedavg import Statistical, local_statistics
from jaxproto.methods.fedprox import fedprox
from jaxproto.methods.scaffold import init_with_zeros, linear_term


class FedDynState(NamedTuple):
    """State of the server, which broadcasts the parameters."""

    params: Tree  # w
    correction: Tree  # -h / mu


class FedDynUpload(NamedTuple):
    """Upload of a client."""

    change: Tree  # w_i - w
    trained: Array  # [] 1 if the client took a step, 0 if the upload is lost


def feddyn(
    spec: Spec,
    *,
    mu: Positive = 0.01,
    num_clients: int | None = None,
    statistics: Statistical = local_statistics,
) -> Method:
    """FedDyn.

    Args:
      mu: alpha, weight of the dynamic regulariser.
      num_clients: N; None is all that report. From a configuration it is filled in.
    """
    base = fedprox(spec, mu=mu)

    def init_server(net, key):
        params = base.init_server(net, key)
        return FedDynState(params, optax.tree.zeros_like(params))

    def loss(net, params, norm, batch, down, client):
        value, aux = base.loss(net, params, norm, batch, down, client)
        gradient = optax.tree.scale(-1.0, client.memory)
        return value + linear_term(gradient, params), aux

    def upload(net, before, after, data, down, sums):
        change = optax.tree.sub(after.params, down)
        memory = jax.tree.map(lambda g, d: g - mu * d, before.memory, change)
        return FedDynUpload(change, jnp.float32(after.steps > 0)), memory

    def finish(net, server, total, key):
        count, anybody = jnp.maximum(total.trained, 1.0), total.trained > 0
        n = num_clients or count
        correction = jax.tree.map(
            lambda s, d: s + d / n, server.correction, total.change
        )

        def step(w, d, s):
            return jnp.where(anybody, w + d / count + s, w)

        params = jax.tree.map(step, server.params, total.change, correction)
        return FedDynState(params, correction)

    method = dataclasses.replace(
        base,
        init_client=init_with_zeros,  # g_i
        init_server=init_server,
        broadcast=lambda server: server.params,
        loss=loss,
        upload=upload,
        update=Aggregation(finish, summand=lambda up: up),
        title="FedDyn",
    )
    return statistics(method, lambda up: up.trained)

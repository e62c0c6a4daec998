"""SCAFFOLD: FedAvg whose local steps are corrected by control variates.

Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: Stochastic Controlled
Averaging for Federated Learning, ICML 2020, https://arxiv.org/abs/1910.06378. With x
and c of the server, c_i of client i, and y_i that starts from x (Algorithm 1, option
II):

    y_i <- y_i - lr (g_i(y_i) - c_i + c)                      tau local steps
    c_i <- c_i - c + (x - y_i) / (tau lr)
    x   <- x + server_rate mean_i (y_i - x)                   over clients that report
    c   <- c + sum_i (change of c_i) / N                      N clients in all

Deviations (paper / PFLlib / here), besides those of FedAvg:
- momentum: none / none / a client's momentum rho starts at 0 in every round, and tau is
  what its unit gradients add up to (`fednova.normalising_factor`).
- a client without a step (`local.short=skip`): cannot be / - / sends nothing.
- c_i of a client whose upload is lost: - / changes / changes, and c does not.
- BatchNorm statistics: not stated / local / local, or their mean (`statistics`).
- learning rate that changes, optimisers beyond SGD: not stated / - / refused.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from jaxproto.core.hyperparameters import Positive
from jaxproto.core.method import Aggregation, Method, own_network
from jaxproto.core.types import Array, Net, Spec, Tree
from jaxproto.methods import nominal
from jaxproto.methods.fedavg import Statistical, fedavg, local_statistics, received_as
from jaxproto.methods.fednova import PLAIN_SGD, LocalDescent, normalising_factor


class ScaffoldState(NamedTuple):
    """State of the server, and its broadcast."""

    params: Tree  # x
    control: Tree  # c


class ScaffoldUpload(NamedTuple):
    """Upload of a client."""

    change: Tree  # y_i - x
    control: Tree  # change of c_i
    trained: Array  # [] 1 if the client took a step, 0 if the upload is lost


def init_with_zeros(net: Net, key: Array):
    """Initialises one network per client, and zeros of its shape as memory."""
    params, norm, _ = own_network(net, key)
    return params, norm, optax.tree.zeros_like(params)


def linear_term(direction: Tree, params: Tree) -> Array:
    """Returns a term of a loss: of value 0, with the gradient `direction`."""
    products = jax.tree.map(lambda d, w: jnp.sum(d * w), direction, params)
    value = sum(jax.tree.leaves(products), start=jnp.zeros(()))
    return value - lax.stop_gradient(value)


def scaffold(
    spec: Spec,
    *,
    server_rate: Positive = 1.0,
    num_clients: int | None = None,
    sgd: LocalDescent = PLAIN_SGD,
    statistics: Statistical = local_statistics,
) -> Method:
    """SCAFFOLD.

    Args:
      server_rate: step towards the mean of the networks.
      num_clients: N; None is all that report. From a configuration it is filled in.
      sgd: learning rate and momentum of the clients' SGD; from a configuration it is
        that of `optimizer`.
    """
    base = fedavg(spec)

    def init_server(net, key):
        params = base.init_server(net, key)
        return ScaffoldState(params, optax.tree.zeros_like(params))

    def loss(net, params, norm, batch, down, client):
        ce, aux = base.loss(net, params, norm, batch, down.params, client)
        correction = optax.tree.sub(down.control, client.memory)
        return ce + linear_term(correction, params), aux

    def upload(net, before, after, data, down, sums):
        length = sgd.learning_rate * normalising_factor(after.steps, sgd)
        divisor = jnp.where(length > 0, length, 1.0)
        change = optax.tree.sub(after.params, down.params)
        control = jax.tree.map(lambda c, y: -c - y / divisor, down.control, change)
        control = jax.tree.map(lambda d: jnp.where(length > 0, d, 0.0), control)
        up = ScaffoldUpload(change, control, jnp.float32(length > 0))
        return up, optax.tree.add(before.memory, control)

    def finish(net, server, total, key):
        count = jnp.maximum(total.trained, 1.0)
        step, share = server_rate / count, 1.0 / (num_clients or count)
        params = optax.tree.add_scale(server.params, step, total.change)
        control = optax.tree.add_scale(server.control, share, total.control)
        return ScaffoldState(params, control)

    method = dataclasses.replace(
        base,
        init_client=init_with_zeros,  # c_i
        init_server=init_server,
        **received_as(lambda params, down: down.params),
        loss=loss,
        upload=upload,
        update=Aggregation(finish, summand=lambda up: up),
        title="SCAFFOLD",
        nominal=nominal.networks("net", "net"),
    )
    return statistics(method, lambda up: up.trained)

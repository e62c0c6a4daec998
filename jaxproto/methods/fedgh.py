"""FedGH: a global header, trained on the clients' prototypes.

Yi, Wang, Liu, Shi, Yu: FedGH: Heterogeneous Federated Learning with Generalized Global
Header, ACM Multimedia 2023, https://arxiv.org/abs/2303.13137. Client i has a
body theta_i of its own and starts every round from the header phi:

    loss = CE(phi(theta_i(x)), y)                   over both
    c_ij = mean of theta_i(x) over the examples of class j, after training
    phi  : one step of SGD on CE(phi(c_ij), j) per batch of the pairs (c_ij, j)

Deviations (paper / released code / here; code: the authors' and HtFLlib's):
- header: trained / the authors' never changes, HtFLlib's does / trained.
- prototypes: after training / means of batch means while training, after training /
  after training, over all examples (HtFLlib: whole batches only).
- server: one pass, rate of the clients / HtFLlib: 0.01, 1 epoch in its tuned script, in
  shuffled batches as large as the clients' / as HtFLlib, batches of `server_batch`.
- first header: not stated / client 0's / one that the server draws.
- prediction: own body with the received header / that (`received`), and the own head
  after training (`head`).
"""

import dataclasses

import jax.numpy as jnp

from jaxproto.core.method import Method
from jaxproto.core.types import Spec, Tree
from jaxproto.methods import nominal
from jaxproto.methods.fedproto import class_means
from jaxproto.methods.fedtgp import (
    ServerTraining,
    batch_orders,
    server_examples,
    server_loss,
    train,
)
from jaxproto.methods.lg_fedavg import lg_fedavg
from jaxproto.prototypes import losses
from jaxproto.prototypes.transforms import apply, hide_count

LOSS = "loss"  # entry of the server's state beside those of the header


def header_of(server: Tree) -> Tree:
    """Returns the header in the server's state."""
    return {name: value for name, value in server.items() if name != LOSS}


def fedgh(
    spec: Spec, *, training: ServerTraining = ServerTraining(server_epochs=1)
) -> Method:
    """FedGH.

    Args:
      training: of the header (HtFLlib: rate 0.01, its script 1 epoch, batches as large
        as the clients').
    """

    def upload(net, before, after, data, down, sums):
        own = class_means(net, after, data, spec.num_classes)
        return apply(hide_count(), own), after.memory

    def update(net, server, up, key):
        data = server_examples(up)

        def loss(header, data, rows_B, mask_B):
            logits_BC = net.head(header, data.proto[rows_B])
            return losses.cross_entropy(logits_BC, data.label[rows_B], mask_B)

        order_EN = batch_orders(data.here, training.server_epochs, key)
        header, loss_E = train(training, header_of(server), data, order_EN, loss)
        return {**header, LOSS: server_loss(loss_E[-1], jnp.any(data.here))}

    return dataclasses.replace(
        lg_fedavg(spec),
        init_server=lambda net, key: {**net.init(key)[0]["head"], LOSS: server_loss()},
        broadcast=header_of,
        upload=upload,
        update=update,
        title="FedGH",
        nominal=nominal.prototypes_and_headers(spec),
    )

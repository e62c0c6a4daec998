"""FedGen: a shared head, and a generator of features that teaches it all classes.

Zhu, Hong, Zhou: Data-Free Knowledge Distillation for Heterogeneous Federated Learning,
ICML 2021, https://arxiv.org/abs/2105.10056. Client i has a body theta_i of its own and
starts every round from the head phi. With labels y drawn in proportion to the clients'
counts and noise e, the server trains the generator G through the heads of all clients:

    loss of G = CE(sum_i (n_i / n) phi_i(G(e, y)), y)
    loss      = CE(phi_i(theta_i(x)), y) + weight CE(phi_i(G(e, y)), y)
    phi       = sum_i (n_i / n) phi_i

Deviations (paper / HtFLlib / here):
- networks: averaged, or heads alone / heads alone / heads alone.
- noise: normal / uniform in [0, 1) / uniform in [0, 1).
- further terms, of the diversity of G and of logits of the generated features: in the
  appendix and in the authors' code / none / none.
- G: a hidden layer with BatchNorm, statistics of the batch / the same / the same, but
  no bias before it: it changes nothing, and Adam would move it by rounding errors.
- G after a round: kept / not saved, so that it stays as it was drawn / kept, and the
  state of Adam, which HtFLlib starts anew.
- labels: by counts of all clients / the same / of those that reported in the last
  round, which send their counts; none in round 1, where G teaches nothing.
- server: Adam / Adam, 0.005 / Adam, `server_rate`, `server_epochs` batches in a round.
- first head: not stated / client 0's / one that the server draws.
- prediction: own body with the received head / own network / both (`received`, `head`).
"""

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jax import lax

from jaxproto.core.hyperparameters import Count, NonNegative
from jaxproto.core.method import Method
from jaxproto.core.types import Array, LossAux, Spec, Tree
from jaxproto.methods.fedavg import normalise_weights, weighted_mean
from jaxproto.methods.fedper import with_parts
from jaxproto.methods.fedtgp import ServerTraining, descend, server_loss
from jaxproto.methods.lg_fedavg import by_both_heads
from jaxproto.methods.local import local
from jaxproto.prototypes import losses
from jaxproto.prototypes.transforms import Diagnostics


class FedGenBroadcast(NamedTuple):
    """Message to every client."""

    head: Tree
    generator: Tree
    counts: Array  # [C] int32, examples of each class


class FedGenState(NamedTuple):
    """State of the server."""

    sent: FedGenBroadcast
    opt: Tree  # state of Adam
    loss: Diagnostics


class FedGenUpload(NamedTuple):
    """Upload of a client."""

    head: Tree
    counts: Array  # [C] int32 n_ij; 0 if the upload is lost


def init_generator(spec: Spec, noise: int, hidden: int, key: Array) -> Tree:
    """Draws the layers as PyTorch's Linear, the first without bias, and BatchNorm."""

    def layer(key, rows, columns):
        bound = rows**-0.5
        draw = jax.random.uniform(key, (rows + 1, columns), minval=-bound, maxval=bound)
        return {"kernel": draw[:-1], "bias": draw[-1]}

    first, second = jax.random.split(key)
    return {
        "in": layer(first, noise + spec.num_classes, hidden)["kernel"],
        "scale": jnp.ones(hidden),
        "shift": jnp.zeros(hidden),
        "out": layer(second, hidden, spec.feat_dim),
    }


def generate(generator: Tree, y_B: Array, classes: int, key: Array) -> Array:
    """Generates features [B, D] of examples with labels [B]."""
    inner, outer = generator["in"], generator["out"]
    noise_BN = jax.random.uniform(key, (len(y_B), len(inner) - classes))
    x = jnp.concatenate([noise_BN, jax.nn.one_hot(y_B, classes)], 1)
    h = jax.nn.standardize(x @ inner, axis=0)
    h = jax.nn.relu(h * generator["scale"] + generator["shift"])
    return h @ outer["kernel"] + outer["bias"]


def draw_labels(count_C: Array, batch_size: int, key: Array) -> Array:
    """Draws labels [B] in proportion to their counts."""
    return jax.random.categorical(key, jnp.log(count_C), shape=(batch_size,))


def fedgen(
    spec: Spec,
    *,
    weight: NonNegative = 1.0,
    noise: Count = 512,
    hidden: Count = 512,
    training: ServerTraining = ServerTraining(server_rate=0.005),
) -> Method:
    """FedGen; `weight=0.0` is LG-FedAvg.

    Args:
      weight: of the cross-entropy on generated features (HtFLlib: 1).
      noise, hidden: dimensions of the generator (HtFLlib: 512).
      training: of the generator; its epochs are batches.
    """
    adam = optax.adam(training.server_rate)

    def init_server(net, key):
        generator = init_generator(spec, noise, hidden, jax.random.fold_in(key, 1))
        count_C = jnp.zeros(spec.num_classes, jnp.int32)
        sent = FedGenBroadcast(net.init(key)[0]["head"], generator, count_C)
        return FedGenState(sent, adam.init(generator), server_loss())

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        label_key, noise_key = jax.random.split(jax.random.fold_in(batch.key, 1))
        y_B = draw_labels(down.counts, len(batch.y), label_key)
        feat_BD = generate(down.generator, y_B, spec.num_classes, noise_key)
        logits_BC = net.head(params["net"]["head"], feat_BD)
        known_B = jnp.full(len(y_B), jnp.float32(jnp.any(down.counts > 0)))
        taught = losses.cross_entropy(logits_BC, y_B, known_B)
        return ce + weight * taught, LossAux({"net": out.norm})

    def upload(net, before, after, data, down, sums):
        count_C = after.count.astype(jnp.int32)
        return FedGenUpload(after.params["net"]["head"], count_C), after.memory

    def update(net, server, up, key):
        size_K = jnp.sum(up.counts, 1)
        share_K, anybody = normalise_weights(size_K), jnp.any(size_K > 0)
        count_C = jnp.sum(up.counts, 0)

        def batch_loss(generator, key):
            label_key, noise_key = jax.random.split(key)
            y_B = draw_labels(count_C, training.server_batch, label_key)
            feat_BD = generate(generator, y_B, spec.num_classes, noise_key)
            logits_KBC = jax.vmap(net.head, (0, None))(up.head, feat_BD)
            logits_BC = jnp.tensordot(share_K, logits_KBC, 1)
            return losses.cross_entropy(logits_BC, y_B, jnp.ones(len(y_B)))

        start = server.sent.generator, server.opt
        keys = jax.random.split(key, training.server_epochs)
        end, loss_E = lax.scan(partial(descend, adam, batch_loss), start, keys)
        generator, opt = jax.tree.map(partial(jnp.where, anybody), end, start)
        head = weighted_mean(up.head, size_K, server.sent.head)
        count_C = jnp.where(anybody, count_C, server.sent.counts)
        sent = FedGenBroadcast(head, generator, count_C)
        return FedGenState(sent, opt, server_loss(loss_E[-1], anybody))

    return dataclasses.replace(
        local(spec),
        init_server=init_server,
        broadcast=lambda server: server.sent,
        receive=lambda params, down: with_parts(params, head=down.head),
        loss=loss,
        upload=upload,
        update=update,
        predict=lambda net, client, x, down: by_both_heads(net, client, x, down.head),
        title="FedGen",
        nominal=None,
    )

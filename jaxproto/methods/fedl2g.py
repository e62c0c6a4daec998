"""FedL2G: guiding vectors that are learnt so that following them helps the clients.

Zhang, Liu, Hua, Cao, Yang: FedL2G: Learning to Guide Local Training in Heterogeneous
Federated Learning, 2024, https://arxiv.org/abs/2410.06490. Client i holds a few
examples back as its quiz. With guiding vectors v_j of the server, of features or logits
f_i(x) (FedL2G-f, FedL2G-l), it trains on the others (study),

    loss = CE + mean over dimensions of (f_i(x) - v_y)^2

then sends the gradient of its quiz loss after one pseudo step with that loss, which
changes no network, and the server takes a step with their mean:

    g_ij = d CE(w_i - rate d loss(study, v) / d w, quiz) / d v_j
    v_j  = v_j - server_rate mean of g_ij over the clients whose study batch has class j

In the first rounds the clients send gradients without training (warm-up).

The equations are those of HtFLlib's code; the paper's text was not read.

Deviations (released code, https://github.com/TsingZ0/FedL2G, and HtFLlib / here):
- quiz: the first batch of the client's examples / `quiz` examples evenly spread, every
  second one of a small client.
- study batch: random / in each round the next examples, except those of the quiz.
- rows sent: of the study batch's classes / of all classes that the client holds.
- order of batches: that of the data / as other methods.
- dropout in the quiz and its pseudo step: a mask of each client / in a round, the same
  mask for all clients.
- first vectors: N(0, 1) / the same.
- gradients: clipped to norm 100 / `optimizer.clip_norm`; of the vectors as they are.
- rounds of warm-up: 50, not counted as rounds / `warm_up`, counted, and
  `optimizer.weight_decay` acts in them.
- prediction: own network (`head`).
"""

import dataclasses
import operator
from collections.abc import Callable
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.batches import gather_examples
from jaxproto.core.hyperparameters import Count, NonNegative, Range
from jaxproto.core.jax_settings import make_key
from jaxproto.core.method import Method
from jaxproto.core.types import Array, LossAux, NetOutput, Spec, Top
from jaxproto.methods.local import local
from jaxproto.prototypes import losses


class FedL2GState(NamedTuple):
    """State of the server, and its broadcast."""

    vectors: Array  # [C, D], of logits [C, C]
    round: Array  # [] of the state, from 0


features = operator.attrgetter("feat")  # what follows the vectors in FedL2G-f
logits = operator.attrgetter("logits")  # in FedL2G-l


def quiz_rows(size: Array, quiz: int) -> Array:
    """Returns the positions of a client's quiz examples; some may exceed its size."""
    return jnp.maximum(size // quiz, 2) * jnp.arange(quiz)


def fedl2g(
    spec: Spec,
    *,
    guide: Callable[[NetOutput], Array] = features,
    quiz: Count = 10,
    study: Count = 10,
    server_rate: NonNegative = 100.0,
    warm_up: Annotated[int, Range("from 0 to 1,000,000", 0, 10**6)] = 0,
    inner_rate: float | Array | None = None,
) -> Method:
    """FedL2G.

    Args:
      guide: what follows the guiding vectors, `features` or `logits`.
      quiz, study: examples of the quiz and of the pseudo step (code: 10).
      server_rate: learning rate of the guiding vectors (code: 100, of logits 0.1).
      warm_up: rounds without local training (code: 50).
      inner_rate: learning rate of the pseudo step; None is 0.01. From a configuration
        it is the clients'.
    """
    rate = 0.01 if inner_rate is None else inner_rate

    def init_server(net, key):
        width = spec.feat_dim if guide is features else spec.num_classes
        vectors = jax.random.normal(key, (spec.num_classes, width))
        return FedL2GState(vectors, jnp.int32(0))

    def guided(net, params, norm, batch, vector_CD, mask_B):
        out = net.apply(params, norm, batch.x, True, batch.key)
        ce = losses.cross_entropy(out.logits, batch.y, mask_B)
        return ce + losses.mse(guide(out), vector_CD[batch.y], mask_B), out.norm

    def loss(net, params, norm, batch, down, client):
        size, trains = jnp.sum(client.count), down.round >= warm_up
        held_B = jnp.isin(batch.row, quiz_rows(size.astype(jnp.int32), quiz))
        mask_B = jnp.where(held_B, 0.0, batch.mask)
        own = params["net"], norm["net"]
        value, new = guided(net, *own, batch, down.vectors, mask_B)
        norm = jax.tree.map(lambda a, b: jnp.where(trains, a, b), new, own[1])
        return jnp.where(trains, value, 0.0), LossAux({"net": norm})

    def upload(net, before, after, data, down, sums):
        params, norm, size = after.params["net"], after.norm["net"], data.shard.size
        num_rows, held = jnp.maximum(size, 1), quiz_rows(size, quiz)
        next_row = (down.round * study + jnp.arange(study)) % num_rows
        studied = ~jnp.isin(next_row, held) & (jnp.arange(study) < size)

        def batch(row_B, mask_B, key):
            mask_B = mask_B.astype(jnp.float32)
            return gather_examples(data, row_B % num_rows, mask_B, key)

        keys = jax.random.split(make_key(down.round))  # of dropout
        quiz_batch = batch(held, held < size, keys[0])
        study_batch = batch(next_row, studied, keys[1])

        def quiz_loss(vector_CD):
            def study_loss(params):
                args = params, norm, study_batch, vector_CD, study_batch.mask
                return guided(net, *args)[0]

            grads = jax.grad(study_loss)(params)
            stepped = jax.tree.map(lambda w, g: w - rate * g, params, grads)
            out = net.apply(stepped, norm, quiz_batch.x, True, quiz_batch.key)
            return losses.cross_entropy(out.logits, quiz_batch.y, quiz_batch.mask)

        return Top(jax.grad(quiz_loss)(down.vectors), after.count > 0), after.memory

    def update(net, server, up, key):
        studied_C = jnp.sum(jnp.any(up.value != 0, 2), 0)
        mean_CD = jnp.sum(up.value, 0) / jnp.maximum(studied_C, 1)[:, None]
        return FedL2GState(server.vectors - server_rate * mean_CD, server.round + 1)

    return dataclasses.replace(
        local(spec),
        init_server=init_server,
        loss=loss,
        upload=upload,
        update=update,
        title="FedL2G",
        nominal=None,
    )

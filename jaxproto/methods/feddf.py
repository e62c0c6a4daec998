"""FedDF: FedAvg whose mean learns from all networks of the round on public examples.

Lin, Kong, Stich, Jaggi: Ensemble Distillation for Robust Model Fusion in Federated
Learning, NeurIPS 2020, https://arxiv.org/abs/2006.07242. Clients train as in FedAvg.
With the networks f_k of the round, the server starts from their mean and takes steps
on batches d of public examples without labels (Algorithm 1):

    teacher = softmax(1 / m sum_k f_k(d))
    loss    = KL(teacher | softmax(f(d)))

Deviations (paper / released code,
https://github.com/epfml/federated-learning-public-code / here), besides FedAvg's:
- architectures: one student for each / the same / one, as in FedAvg.
- mean of networks: weighted by examples / plain / weighted by examples.
- steps: until validation settles, 10,000 at most / the same, and the network of the
  best validation accuracy / `server_epochs`, and the last network.
- gradients on the server: not stated / clipped to norm 5 / not clipped.
- optimiser: Adam, 0.001, with a cosine schedule / the same / the same, `server_rate`.
- BatchNorm on the server: not stated / statistics of the teachers, the student's of the
  batch / all of the batch.
- dropout on the server: not stated / of the student / of all, one mask in a step.
"""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import optax
from jax import lax

from jaxproto.core.batches import normalise_inputs
from jaxproto.core.method import Method
from jaxproto.core.types import ArrayLike, Spec
from jaxproto.methods.fedavg import (
    Statistical,
    fedavg,
    local_statistics,
    normalise_weights,
    weighted_mean,
)
from jaxproto.methods.fedtgp import ServerTraining, descend
from jaxproto.prototypes import losses


def feddf(
    spec: Spec,
    *,
    training: ServerTraining = ServerTraining(server_rate=0.001),
    public: ArrayLike | None = None,
    statistics: Statistical = local_statistics,
) -> Method:
    """FedDF; FedAvg without public examples.

    Args:
      training: of the mean; its epochs are batches.
      public: inputs of the public examples [P, ...]. From a configuration they are
        filled in.
    """
    method = dataclasses.replace(fedavg(spec), title="FedDF")
    if public is None:
        return statistics(method)
    public_x, steps = jnp.asarray(public), training.server_epochs
    schedule = optax.cosine_decay_schedule(training.server_rate, max(steps, 1))
    adam = optax.adam(schedule)

    def update(net, server, up, key):
        share_K, norm = normalise_weights(up.size > 0), net.init(key)[1]
        start = weighted_mean(up.params, up.size, server)

        def logits(params, x, key):
            return net.apply(params["net"], norm, x, True, key).logits

        def distance(params, x, key):
            logits_KBC = jax.vmap(logits, (0, None, None))(up.params, x, key)
            teacher_BC = lax.stop_gradient(jnp.tensordot(share_K, logits_KBC, 1))
            kl = losses.kl_mean(teacher_BC, logits(params, x, key), jnp.ones(len(x)))
            return kl * spec.num_classes

        def step(now, key):
            row_B = jax.random.randint(key, (training.server_batch,), 0, len(public_x))
            x = normalise_inputs(public_x[row_B])
            return descend(adam, distance, now, x, jax.random.fold_in(key, 1))[0], ()

        first = start, adam.init(start)
        (end, _), _ = lax.scan(step, first, jax.random.split(key, steps))
        return jax.tree.map(partial(jnp.where, jnp.any(up.size > 0)), end, server)

    return statistics(dataclasses.replace(method, update=update))

"""FedMD: networks of any kind that agree on the scores of public examples.

Li, Wang: FedMD: Heterogenous Federated Learning via Model Distillation, 2019,
https://arxiv.org/abs/1910.03581. f_k(x) are the scores of client k before the softmax.
In every round (Algorithm 1), over public examples x and m clients:

    communicate: f_k(x)
    aggregate:   f(x) = 1 / m sum_k f_k(x)
    digest:      client k trains f_k towards f on the public examples
    revisit:     client k trains f_k on its own examples

Deviations (paper / released code, https://github.com/diogenes0319/FedMD_clean / here):
- before round 1: training on the public examples, then on the own / the same / none.
- public examples of a round: a part or all / a part drawn anew / all.
- distance in digest: not stated / mean absolute difference / the same.
- lengths of digest and revisit: few epochs / two numbers of epochs / the first
  `digest_share` of the local steps digest, each a random batch of public examples.
- optimiser: not stated / Adam, one for each phase, kept over rounds / `optimizer`, one
  for both.
- prediction: own network (`head`).
"""

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.core.batches import EVAL_BATCH_SIZE, normalise_inputs
from jaxproto.core.hyperparameters import Share
from jaxproto.core.method import Method
from jaxproto.core.types import ArrayLike, LossAux, Spec
from jaxproto.methods.local import local
from jaxproto.prototypes import kernels, losses


def fedmd(
    spec: Spec, *, digest_share: Share = 0.5, public: ArrayLike | None = None
) -> Method:
    """FedMD; local training without public examples.

    Args:
      digest_share: of the local steps digest, the others revisit.
      public: inputs of the public examples [P, ...]. From a configuration they are
        filled in.
    """
    if public is None:
        return dataclasses.replace(local(spec), title="FedMD", nominal=None)
    public_x, size = jnp.asarray(public), len(public)

    def scores(net, client, data, down):  # communicate

        def one(x):
            x = normalise_inputs(x)[None]
            return net.apply(client.params["net"], client.norm["net"], x, False).logits

        return lax.map(one, public_x, batch_size=EVAL_BATCH_SIZE)[:, 0]

    def aggregate(server, ups, key):
        there_K = kernels.are_present(ups)
        mean_PC = jnp.tensordot(there_K, ups, 1) / jnp.maximum(jnp.sum(there_K), 1.0)
        return jnp.where(jnp.any(there_K > 0), mean_PC, server)

    def loss(net, params, norm, batch, down, client):
        digests = batch.step < jnp.round(digest_share * client.steps)
        key = jax.random.fold_in(batch.key, 1)
        row_B = jax.random.randint(key, batch.y.shape, 0, size)
        x = jnp.where(digests, normalise_inputs(public_x[row_B]), batch.x)
        out = net.apply(params["net"], norm["net"], x, True, batch.key)
        away = jnp.mean(jnp.abs(out.logits - down[row_B]))  # digest
        ce = losses.cross_entropy(out.logits, batch.y, batch.mask)  # revisit
        return jnp.where(digests, away, ce), LossAux({"net": out.norm})

    return dataclasses.replace(
        local(spec),
        init_server=lambda net, key: jnp.zeros((size, spec.num_classes)),
        pre_upload=scores,
        pre_aggregate=aggregate,
        loss=loss,
        sends_public=True,
        title="FedMD",
        nominal=lambda classes_K, sizes: 2 * len(classes_K) * size * spec.num_classes,
    )

"""FedDistill: the mean logits of every class are shared.

Jeong, Oh, Kim, Park, Bennis, Kim: Communication-Efficient On-Device Machine Learning:
Federated Distillation and Augmentation under Non-IID Private Data, 2018,
https://arxiv.org/abs/1811.11479; HtFLlib calls it FD. With o_i the logits of
client i:

    z_ij = mean of o_i(x) over the examples of class j, as seen while training
    z_j  = mean of z_ij over the clients that hold class j
    loss = CE(o_i(x), y) + lam * D(o_i(x), z_y)

Deviations (paper / released code / here; code: HtFLlib, which the papers ran):
- D: cross-entropy with soft labels / squared error, then cross-entropy with softmax(z),
  then with z itself, which is unbounded below / `distance`, default softmax(z).
- z_j for client i: without its own z_ij / with / as code.
- classes without z_j: not stated / the example's own logits as a constant / as code.
- first round: not stated / cross-entropy alone / as code.

S is the paper of `cps_ppa_cpkd.py`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from jaxproto.core.hyperparameters import NonNegative
from jaxproto.core.method import Method
from jaxproto.core.types import Array, LossAux, Protos, Spec
from jaxproto.methods import nominal
from jaxproto.prototypes import kernels, losses
from jaxproto.prototypes.transforms import apply, hide_count


class FedDistillState(NamedTuple):
    """Mean logits z_j of the classes."""

    logits: Protos  # [C, C]


def softmax_ce(logits_BC: Array, z_BC: Array, mask_B: Array) -> Array:
    """Returns the cross-entropy with softmax(z) (code from April 2024 on)."""
    return losses.soft_cross_entropy(logits_BC, jax.nn.softmax(z_BC), mask_B)


mse = losses.mse  # mean squared error over all entries (code until April 2024)
raw_ce = losses.soft_cross_entropy  # with z itself (code from November 2025 on)


def feddistill(
    spec: Spec, *, lam: NonNegative = 1.0, distance: Callable = softmax_ce
) -> Method:
    """FedDistill.

    Args:
      lam: weight of the distillation (S Appendix, gamma: 1).
      distance: D between logits and the mean logits of a class, `softmax_ce`, `mse` or
        `raw_ce`.
    """
    classes = spec.num_classes

    def loss(net, params, norm, batch, down, client):
        out, ce = losses.output_and_ce(net, params["net"], norm["net"], batch)
        fixed_BC, z = jax.lax.stop_gradient(out.logits), down.logits
        known_B1 = (z.count > 0)[batch.y][:, None]
        z_BC = jnp.where(known_B1, z.mean[batch.y], fixed_BC)
        term = distance(out.logits, z_BC, batch.mask) * jnp.any(z.count > 0)
        sums = kernels.class_sum(fixed_BC, batch.y, batch.mask, classes)
        return ce + lam * term, LossAux({"net": out.norm}, sums)

    def upload(net, before, after, data, down, sums):
        return apply(hide_count(), kernels.mean_of(sums)), after.memory

    return Method(
        init_server=lambda net, key: FedDistillState(
            kernels.no_prototypes(classes, classes)
        ),
        loss=loss,
        upload=upload,
        update=lambda net, server, up, key: FedDistillState(
            kernels.mean_over_clients(up)
        ),
        title="FedDistill",
        nominal=nominal.class_rows(spec, classes),
    )

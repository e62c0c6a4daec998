"""FedRep: private heads, trained before the body that all clients share.

Collins, Hassani, Mokhtari, Shakkottai: Exploiting Shared Representations for
Personalized Federated Learning, ICML 2021, https://arxiv.org/abs/2102.07078. Client i
has a head phi_i of its own on the body theta that all share. In a round (Algorithm 1):

    phi_i   : local steps of SGD on CE(phi_i(theta(x)), y), theta fixed
    theta_i : local steps of SGD on the same loss from theta, phi_i fixed
    theta   = sum_i (n_i / n) theta_i           over the clients that report

Deviations (paper / released code, https://github.com/lgcollins/FedRep / here):
- steps of the head: many / all epochs but the last ones / the first `head_share` of all
  steps.
- mean of the bodies: equal weights / n_i / n_i.
- gradients of the fixed part: none / none / computed and dropped, for the same result.
- momentum: none / 0.5, one optimiser for both / one optimiser for both, whose gradient
  of the fixed part is 0.
- BatchNorm statistics: not stated / none / each client's own.
- last round: - / all clients train the head for ten epochs / as the others.
- prediction: own head on the received body / own network / own network after local
  training (`head`).
"""

import dataclasses

import jax.numpy as jnp

from jaxproto.core.hyperparameters import Share
from jaxproto.core.method import Method
from jaxproto.core.types import Spec
from jaxproto.methods.fedper import fedper


def fedrep(spec: Spec, *, head_share: Share = 0.5) -> Method:
    """FedRep.

    Args:
      head_share: of the local steps train the head, the others the body.
    """

    def trainable(step, steps):
        first = step < jnp.round(head_share * steps)
        return {"net": {"head": first, "body": ~first}}

    return dataclasses.replace(fedper(spec), trainable=trainable, title="FedRep")

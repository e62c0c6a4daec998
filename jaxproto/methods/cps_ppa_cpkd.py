"""CPS, PPA and CPKD on FedProto or FedTGP.

S: Enhancing Prototype-Based Federated Learning with Structured Sparse Prototypes,
submission to ICLR. Three parts, each of which can be left out:

- CPS: of class j only the coordinates of its mask m_j are sent (Eq. 7, 8).
- PPA: clients send n_ij c_ij; the server, which knows K and n = sum n_ij alone, takes

        g_j = K/n * sum over N_j of n_ij c_ij       (Eq. 11)

  for FedProto; FedTGP learns from (K/n) |N_j| n_ij c_ij (Appendix C).
- CPKD: class j of client i weighs beta_ij = n_ij / max_k n_ik in the pull (Eq. 12).

PPA is the adaptive scaling of TinyProto (`tinyproto.py`) with mu = K/n.
When the parts gain accuracy: results/details.md#when-cps-ppa-cpkd-gains.

Deviations (paper / released code / here), the code not being public:
- pull: distance of class means, lam 0.1 / - / as in FedProto.
- beta_ij: on the distances of class means / - / on whatever terms `reg` has.
- masks: blocks, which leave fewer than s coordinates where C s / D or D / C is no whole
  number / - / `masks`, default blocks with a part of one more (`exact_block_masks`).
- what the pull compares under CPS: of both sides the coordinates of the mask (Section
  4.3, last sentence) / - / `compare`, default DENSE, all coordinates, where those that
  are not sent are drawn to 0. SPARSE leaves them free, so that the paper's own rule,
  all features against the sparse global prototypes (`global`), ends at 9 % on the
  digits after 50 rounds, where DENSE ends at 88 % (Fashion-MNIST:
  docs/decisions.md#compare). SPARSE adds the rule `global_masked`, a class by the
  coordinates of its mask.
- prediction: global prototypes / - / every rule (this one is `global`).
"""

import dataclasses
from collections.abc import Callable
from typing import Annotated

import jax.numpy as jnp

from jaxproto.core.hyperparameters import NonNegative, or_zero
from jaxproto.core.method import Method
from jaxproto.core.types import Array, Client, Spec
from jaxproto.methods.fedproto import Pull, no_class_weights
from jaxproto.methods.fedtgp import ServerTraining
from jaxproto.methods.tinyproto import (
    DENSE,
    SUM,
    UNSCALED,
    PullFeatures,
    Scaling,
    Sparsity,
    on_fedproto,
    tinyproto,
)
from jaxproto.prototypes import masks


def cpkd(client: Client) -> Array:
    """Returns weights beta_ij [C] of classes; 1 for the majority class (Eq. 12)."""
    return client.count / jnp.maximum(jnp.max(client.count), 1.0)


def _title(base: str, parts: dict[str, bool]) -> str:
    """Returns the base and the active parts, as named in S Table 1."""
    on = [name for name, is_on in parts.items() if is_on]
    return " + ".join([base, *on]) if on else f"{base} without {', '.join(parts)}"


def cps_ppa_cpkd(
    spec: Spec,
    *,
    base: Callable = on_fedproto,
    sparsity: Sparsity = Sparsity(masks=masks.exact_block_masks),
    scaling: Scaling = SUM,
    num_examples: Annotated[int, or_zero("as divided")] = 0,
    distill: Callable = cpkd,
    pull: Pull = Pull(),
    tau: NonNegative = 100.0,
    training: ServerTraining = ServerTraining(),
    compare: PullFeatures = DENSE,
) -> Method:
    """CPS + PPA + CPKD.

    Args:
      base: `on_fedproto` or `on_fedtgp`.
      sparsity: CPS, as in `tinyproto` (S Table 1: s 50 and 250); `masks.full_masks`
        turns it off.
      scaling: PPA, `SUM`; `UNSCALED` turns it off, `MEAN` divides by |N_j| (T Eq. 10),
        `SUM_OF_PARTICIPANTS` uses the participants' n.
      num_examples: n, training examples of all clients; 0 leaves sums unscaled. From a
        configuration it is filled in.
      distill: weight of the pull for each class and client, in place of
        `pull.class_weight`: `cpkd`, or `fedproto.no_class_weights` for none.
      pull: as in `fedproto` (lam: S 5.1 has 0.1, T's and N's code 10).
      tau: largest margin between prototypes (S 5.1: 100), with `on_fedtgp` only.
      training: as in `fedtgp` (S 5.1: 100 epochs), with `on_fedtgp` only.
      compare: what the pull sees of the features, `DENSE` or `SPARSE` (S 4.3).

    Raises:
      UserError: the masks do not fit the feature dimension.
    """
    parts = {
        "CPS": sparsity.masks is not masks.full_masks,
        "PPA": scaling is not UNSCALED,
        "CPKD": distill is not no_class_weights,
    }
    method = tinyproto(
        spec,
        base=base,
        sparsity=sparsity,
        scaling=scaling,
        mu=spec.num_classes / num_examples if num_examples else 1.0,
        num_examples=num_examples,
        pull=pull._replace(class_weight=distill),
        tau=tau,
        training=training,
        compare=compare,
    )
    plain = base(spec, tau=tau, training=training).title
    return dataclasses.replace(method, title=_title(plain, parts))

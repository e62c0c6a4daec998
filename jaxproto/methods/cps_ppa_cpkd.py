"""CPS, PPA and CPKD on FedProto or FedTGP.

S: Enhancing Prototype-Based Federated Learning with Structured Sparse Prototypes,
submission to ICLR. Three parts, each of which can be left out:

- CPS: of class j only the coordinates of its mask m_j are sent (Eq. 7, 8), and only
  they are compared in the pull (Section 4.3, last sentence).
- PPA: clients send n_ij c_ij; the server, which knows K and n = sum n_ij alone, takes

        g_j = K/n * sum over N_j of n_ij c_ij       (Eq. 11)

  for FedProto; FedTGP learns from (K/n) |N_j| n_ij c_ij (Appendix C).
- CPKD: class j of client i weighs beta_ij = n_ij / max_k n_ik in the pull (Eq. 12).

PPA is the adaptive scaling of TinyProto (`tinyproto.py`) with mu = K/n.

Deviations (paper / released code / here), the code not being public:
- beta_ij: on the distances of class means / - / on whatever terms `reg` has.
- masks: blocks / - / `masks`, default free ones of exactly s coordinates, which exist
  for any number of classes (H9); `configs/cps_ppa_cpkd.py` has the paper's blocks.
- without CPS: features compared as they are / - / as the paper.
- prediction: distance of all features to the sparse global prototypes / - / every rule
  (this one is `global`), and `global_masked`, which compares a class by the coordinates
  of its mask, as the pull does. The pull leaves the others free, so that with FedProto
  `global` can be worse than chance where `global_masked` is good (30 rounds on digits,
  blocks of 6: 10 % and 88 %).
"""

from collections.abc import Callable

import jax.numpy as jnp

from jaxproto import losses
from jaxproto import masks as masks_
from jaxproto.method import Method
from jaxproto.methods.fedproto import Collect, after_training
from jaxproto.methods.tinyproto import SPARSE, SUM, Scaling, on_fedproto, tinyproto
from jaxproto.types import Array, Client, Spec


def cpkd(client: Client) -> Array:
    """Weights beta_ij [C] of the classes of a client; 1 for its commonest (Eq. 12)."""
    return client.count / jnp.maximum(jnp.max(client.count), 1.0)


def cps_ppa_cpkd(
    spec: Spec,
    *,
    base: Callable = on_fedproto,
    s: int = 0,
    masks: masks_.Masks = masks_.free,
    mask_seed: int = 0,
    scaling: Scaling = SUM,
    num_examples: int = 0,
    distill: Callable = cpkd,
    lam: float = 0.1,
    reg: Callable = losses.l2_of_means,
    collect: Collect = after_training,
    tau: float = 100.0,
    server_epochs: int = 100,
    server_rate: float = 0.01,
    server_batch: int = 32,
) -> Method:
    """CPS + PPA + CPKD.

    Args:
      spec: number of classes and feature dimension.
      base: `on_fedproto` or `on_fedtgp`.
      s, mask_seed: as in `tinyproto` (S Table 1: s 50 and 250).
      masks: CPS, `masks.free` or `masks.block` (S 4.1); `masks.every` is without.
      scaling: PPA, `SUM`; `UNSCALED` is without, `MEAN` divides by |N_j| (T Eq. 10).
      num_examples: n, training examples of all clients; 0 leaves sums unscaled. From a
        configuration it is filled in.
      distill: `cpkd`, or `fedproto.alike` for none.
      lam: weight of the pull (S 5.1: 0.1).
      reg, collect: as in `fedproto`.
      tau, server_epochs, server_rate, server_batch: as in `fedtgp` (S 5.1: tau 100, 100
        epochs), with `on_fedtgp` only.

    Raises:
      UserError: the masks do not fit the feature dimension.
    """
    return tinyproto(
        spec,
        base=base,
        s=s,
        masks=masks,
        mask_seed=mask_seed,
        scaling=scaling,
        mu=spec.num_classes / num_examples if num_examples else 1.0,
        lam=lam,
        reg=reg,
        collect=collect,
        tau=tau,
        server_epochs=server_epochs,
        server_rate=server_rate,
        server_batch=server_batch,
        compare=SPARSE,
        emphasis=distill,
    )

"""TinyProto: class-wise sparsification and adaptive scaling of prototypes.

Lee, Choi: Communication-Efficient Heterogeneous Federated Learning with Sparse
Prototypes in Resource-Constrained Environments (TinyProto), AAAI 2026. Two parts on
FedProto (-FP) or FedTGP (-FT), each of which can be left out (T: this paper, S: that of
`cps_ppa_cpkd.py`):

- CPS: of class j only the s coordinates of its mask m_j are sent, in both directions.
  Structured sparse prototype: c o m (Eq. 7). Compressed: the s entries (Eq. 8).
- APS: clients send n_ij c_ij, a constant mu undoes the scale (Eq. 10, 11).

        g_j = mu * sum over N_j of n_ij c_ij

  n_ij itself is never sent. FedTGP learns from mu |N_j| n_ij c_ij, whose mean over
  clients is g_j (S Appendix C).

Features stay dense in the pull: coordinates outside the mask are drawn to 0 (Eq. 11).

Deviations (paper / released code / here):
- scaling: mean over N_j / sum / `scaling`, default the sum; only with it do the
  published mu bring prototypes near their own size (docs/decisions.md#mu).
- a round in which some clients take part: n and mu stay those of all, so that
  prototypes shrink with the share (Algorithm 1; S Eq. 11) / as paper / `scaling`,
  default as paper.
- mu: on the client / on the server / on the server, the same numbers.
- n_ij: examples of class j / those of training and test data / training data.
- pull: as in FedProto / left out where CPS is on / as in FedProto.
- masks: random, far apart / blocks, unseeded / `masks`, default free, seeded.
- -FT: in an appendix that is not public / cannot run / uploads are filled with zeros,
  the generator trains in all dimensions, its outputs are masked. The code without
  its flag `ani` is `scaling="mean"`, and mu then |N_j| times larger.
- prediction: own local prototypes / global ones, scaled and sparse / every rule.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Annotated, NamedTuple

import jax.numpy as jnp

from jaxproto.core.hyperparameters import (
    NonNegative,
    Seed,
    argument_group,
    is_zero,
    or_zero,
)
from jaxproto.core.method import Method, own_features
from jaxproto.core.types import Array, Protos, Spec
from jaxproto.errors import UserError
from jaxproto.methods import fedproto, fedtgp, nominal
from jaxproto.methods.fedproto import Pull
from jaxproto.methods.fedtgp import ServerTraining
from jaxproto.prototypes import kernels
from jaxproto.prototypes.masks import (
    Masks,
    bitmap,
    mask_indices,
    mask_message,
    random_masks,
)
from jaxproto.prototypes.transforms import (
    IDENTITY,
    Transform,
    apply,
    chain,
    compress,
    expand,
    scale_by_count,
)
from jaxproto.wrappers.privacy import NONE, OFF, Privacy
from jaxproto.wrappers.privacy.release import Contribution


class Scaling(NamedTuple):
    """Scaling of a client's prototypes by n_ij, which is not sent."""

    on_upload: Transform
    on_arrival: Callable[[Protos, float], Protos]  # uploads [K, C, S], mu -> uploads
    of_participants: bool = False  # mu is for the examples of a round's participants


def scale_for_sum(up: Protos, mu: float | Array) -> Protos:
    """Multiplies by mu |N_j|, so that the mean over clients is mu times the sum."""
    holders_C = jnp.sum(up.count > 0, 0)
    return up.replace(mean=up.mean * (mu * holders_C)[:, None])


SUM = Scaling(scale_by_count(), scale_for_sum)
SUM_OF_PARTICIPANTS = SUM._replace(of_participants=True)
# Eq. 10 as printed
MEAN = Scaling(scale_by_count(), lambda up, mu: up.replace(mean=up.mean * mu))
UNSCALED = Scaling(IDENTITY, lambda up, mu: up)


class SizedUpload(NamedTuple):
    """Upload of a client, and its number of training examples."""

    protos: Protos  # n_ij c_ij
    size: Array  # [] n_i; 0 if the client is absent


def scaled_to_participants(method: Method, num_examples: int) -> Method:
    """Returns a method that multiplies sums by n over the sum of n_i that arrived."""

    def upload(net, before, after, data, down, sums):
        protos, memory = method.upload(net, before, after, data, down, sums)
        return SizedUpload(protos, data.shard.size), memory

    def update(net, server, up, key):
        factor = num_examples / jnp.maximum(jnp.sum(up.size), 1)
        protos = up.protos.replace(mean=up.protos.mean * factor)
        return method.update(net, server, protos, key)

    return dataclasses.replace(method, upload=upload, update=update)


def on_fedproto(
    spec: Spec, *, tau: float, training: ServerTraining, **arguments
) -> Method:
    """Returns FedProto (-FP), which has no use for `tau` and `training`."""
    return fedproto.fedproto(spec, **arguments)


on_fedtgp = fedtgp.fedtgp  # -FT
TITLES = {"FedProto": "TinyProto-FP", "FedTGP": "TinyProto-FT"}  # by the base's


@argument_group
class Sparsity(NamedTuple):
    """Choice of the coordinates of a class's prototype that are sent."""

    # how many (T 5.1: 50 of 500); 0 is a tenth of them
    s: Annotated[int, or_zero("a tenth of model.feat_dim")] = 0
    masks: Masks = random_masks  # T 4.1; `block_masks`: code, `exact_block_masks`: S
    mask_seed: Seed = 0


class PullFeatures(NamedTuple):
    """Coordinates of features that the pull compares, and a rule with equal ones.

    Both functions take masks as zeros and ones [C, D].
    """

    feature_map: Callable  # mask_CD, feat_BD, y_B -> features
    rules: Callable  # mask_CD, feat_BD, protos -> {rule: scores_BC}


def masked_rule(mask_CD: Array, feat_BD: Array, protos: Protos) -> dict[str, Array]:
    """Returns the rule `global_masked`: classes by the coordinates of their masks."""
    return {"global_masked": kernels.nearest_within(feat_BD, protos, mask_CD)}


DENSE = PullFeatures(  # all coordinates (T Eq. 11)
    lambda mask_CD, feat_BD, y_B: feat_BD, lambda mask_CD, feat_BD, protos: {}
)
SPARSE = PullFeatures(  # those in the mask of the class (S Section 4.3)
    lambda mask_CD, feat_BD, y_B: feat_BD * mask_CD[y_B], masked_rule
)


def _factor(mu: float | Array, spec: Spec, num_examples: int) -> float | Array:
    """Returns `mu`, or 0.9 over the mean examples of a class if it is 0."""
    if not is_zero(mu):
        return mu
    if not num_examples:
        raise UserError(
            "mu is 0, so that it follows from num_examples, which is 0 too; give mu, "
            "or the number of training examples of all clients."
        )
    return 0.9 * spec.num_classes / num_examples


def _private_sums(privacy: Privacy, index_CS: Array) -> dict:
    """Returns arguments of `fedproto` for private sums n_ij c_ij, without counts."""

    def entries(feat_BD, y_B):
        return kernels.compress(feat_BD, index_CS[y_B])

    return {"privacy": privacy, "contribution": Contribution(entries, weighed=False)}


def tinyproto(
    spec: Spec,
    *,
    base: Callable = on_fedproto,
    sparsity: Sparsity = Sparsity(),
    scaling: Scaling = SUM,
    mu: NonNegative = 0.0,
    num_examples: Annotated[int, or_zero("as divided")] = 0,
    pull: Pull = Pull(),
    tau: NonNegative = 100.0,
    training: ServerTraining = ServerTraining(),
    compare: PullFeatures = DENSE,
    privacy: Privacy = NONE,
) -> Method:
    """TinyProto; with `Sparsity(masks=full_masks)` and `UNSCALED` it is the base.

    Args:
      base: `on_fedproto` (-FP) or `on_fedtgp` (-FT).
      sparsity: CPS; with `masks.full_masks` all coordinates are sent.
      scaling: `SUM` (code), `MEAN` (as printed) or `UNSCALED`, without mu;
        `SUM_OF_PARTICIPANTS` divides by the participants' share of the examples.
      mu: scale of Eq. 11 (T 5.1: 1.5e-4 CIFAR-10, 5e-4 GTSRB, 5e-3 Flowers, 1.5e-3
        CIFAR-100 and Tiny ImageNet); 0 is 0.9 C / `num_examples`, a third larger than
        those of CIFAR, tuned with test data in n_ij (docs/decisions.md#mu).
      num_examples: training examples of all clients, for `mu` 0. From a configuration
        it is filled in.
      pull: as in `fedproto` (lam: T 5.1 has 1, the code 10).
      tau: largest margin between prototypes, for -FT only.
      training: as in `fedtgp`, for -FT only.
      compare: what the pull sees of the features, `DENSE` (T) or `SPARSE` (S), in place
        of `pull.feature_map`.
      privacy: as in `fedproto`, for -FP with `SUM`; the sum is that of what was sent.

    Raises:
      UserError: the masks do not fit the feature dimension; neither mu nor the number
        of examples is known.
    """
    s, masks, mask_seed = sparsity
    index_CS = mask_indices(masks, spec, s, mask_seed)
    table = jnp.asarray(index_CS)
    mask_CD = jnp.asarray(bitmap(index_CS, spec.feat_dim), jnp.float32)
    restore = expand(table, spec.feat_dim)
    factor = 1.0 if scaling is UNSCALED else _factor(mu, spec, num_examples)

    def on_arrival(up):
        up = scaling.on_arrival(up, factor)
        return up.replace(mean=kernels.decompress(up.mean, table, spec.feat_dim))

    private = {} if privacy.unit == OFF else _private_sums(privacy, table)
    method = base(
        spec,
        tau=tau,
        training=training,
        pull=pull._replace(feature_map=partial(compare.feature_map, mask_CD)),
        on_upload=chain(scaling.on_upload, compress(table)),
        on_arrival=on_arrival,
        on_server=compress(table),
        on_client=restore,
        **private,
    )
    if scaling.of_participants:
        if not num_examples:
            raise UserError("scaling sum_of_participants needs num_examples; it is 0.")
        method = scaled_to_participants(method, num_examples)

    def predict(net, client, x, down):
        feat_BD = own_features(net, client, x)
        more = compare.rules(mask_CD, feat_BD, apply(restore, down))
        return {**method.predict(net, client, x, down), **more}

    sent = mask_message(index_CS, spec.feat_dim)
    cost = nominal.class_rows(spec, index_CS.shape[1])
    title = TITLES.get(method.title, f"TinyProto on {method.title}")
    return dataclasses.replace(
        method, predict=predict, setup=sent, nominal=cost, title=title
    )

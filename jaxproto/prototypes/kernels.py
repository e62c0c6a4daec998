"""Jitted operations on prototypes: class means, nearest prototype, alignment.

Networks use the default precision of the accelerator (matrix products of float32 in
TF32 on a GPU, in bfloat16 on a TPU). Operations on prototypes and on the server are
`float32_matmuls`, as lower precision would lose differences of close prototypes.

Equation numbers are those of ProtoNorm (N: Lee, Shin, Choi: Heterogeneous Federated
Learning with Prototype Alignment and Upscaling), or of T and S (docs/glossary.md).
"""

from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jax import lax

from jaxproto.core.types import Array, Protos, Tree
from jaxproto.prototypes.geometry import (
    Spacing,
    angles,
    centred,
    centroid,
    distinct_pairs,
    float32_matmuls,
    min_over_pairs,
    normalise_rows,
    repulsion,
    spacing,
    sq_distances_by_products,
)


def class_sum(feat_BD: Array, y_B: Array, mask_B: Array, num_classes: int):
    """Returns sums of features [C, D] and counts [C] per class."""
    chex.assert_rank([feat_BD, y_B, mask_B], [2, 1, 1])
    sum_CD = jax.ops.segment_sum(feat_BD * mask_B[:, None], y_B, num_classes)
    return sum_CD, jax.ops.segment_sum(mask_B, y_B, num_classes)


def mean_of(sums) -> Protos:
    """Returns class means from `class_sum`; empty classes have count 0 (Eq. 2)."""
    sum_CD, count_C = sums
    return Protos(sum_CD / jnp.maximum(count_C, 1.0)[:, None], count_C)


def no_prototypes(num_classes: int, feat_dim: int) -> Protos:
    """Returns absent prototypes: every count is 0."""
    return Protos(jnp.zeros((num_classes, feat_dim)), jnp.zeros(num_classes))


@float32_matmuls
def mean_over_clients(up: Protos) -> Protos:
    """Averages each class over its clients; count is their number (Eq. 7).

    Args:
      up: mean [K, C, D], count [K, C]; count 0 means "not sent".
    """
    has_KC = (up.count > 0).astype(up.mean.dtype)
    return mean_of((jnp.einsum("kcd,kc->cd", up.mean, has_KC), jnp.sum(has_KC, 0)))


@float32_matmuls
def mean_over_examples(up: Protos) -> Protos:
    """Averages over clients weighted by their counts n_ij; count is the total."""
    return mean_of((jnp.einsum("kcd,kc->cd", up.mean, up.count), jnp.sum(up.count, 0)))


def mean_as_printed(up: Protos) -> Protos:
    """Averages with weights n_ij / (|N_j| sum_i n_ij); count is the total.

    N Eq. 3, T Eq. 4, S Eq. 9 (FedProto's Eq. 6). The weights sum to 1 / |N_j|, which
    shrinks every prototype (docs/decisions.md#aggregate). S Remark 1: with equal counts
    everywhere it is PPA (S Eq. 11) divided by |N_j|.
    """
    mean, holders_C = mean_over_examples(up), jnp.sum(up.count > 0, 0)
    return mean.replace(mean=mean.mean / jnp.maximum(holders_C, 1)[:, None])


COUNTED = (mean_over_examples, mean_as_printed)  # aggregations that need counts n_ij


def is_present(up: Tree) -> Array:
    """Returns 1.0 for an upload that arrived, 0.0 for one that is all zero."""
    there = [jnp.any(a != 0) for a in jax.tree.leaves(up)]
    return jnp.any(jnp.stack(there)).astype(jnp.float32)


def are_present(up: Tree) -> Array:
    """Returns `is_present` of uploads [K, ...] as [K]."""
    return jax.vmap(is_present)(up)


@float32_matmuls
def nearest(feat_BD: Array, protos: Protos) -> Array:
    """Scores classes [B, C] by nearness of prototypes; -inf where absent (Eq. 6).

    A score is minus the mean squared distance up to a constant per example. In float32
    that constant would hide differences between close prototypes, and so would their
    common part: prototypes are centred first, as in `repulsion`.
    """
    chex.assert_rank([feat_BD, protos.mean], 2)
    on_C = (protos.count > 0).astype(feat_BD.dtype)
    middle_D = centroid(protos.mean, on_C)
    proto_CD = protos.mean - middle_D
    away_BC = jnp.sum(proto_CD**2, -1) - 2 * (feat_BD - middle_D) @ proto_CD.T
    return jnp.where(protos.count > 0, -away_BC / feat_BD.shape[-1], -jnp.inf)


@float32_matmuls
def nearest_within(feat_BD: Array, protos: Protos, mask_CD: Array) -> Array:
    """Scores classes as `nearest`, each by the coordinates of its own mask."""
    chex.assert_rank([feat_BD, protos.mean, mask_CD], 2)
    mean_CD = protos.mean * mask_CD
    away_BC = jnp.sum(mean_CD**2, -1) - 2 * feat_BD @ mean_CD.T
    away_BC = away_BC + feat_BD**2 @ mask_CD.T
    return jnp.where(protos.count > 0, -away_BC / feat_BD.shape[-1], -jnp.inf)


def alignment_rate(step: Array) -> Array:
    """Returns 0.1, times 0.95 after iterations 0, 10, 20, ... (as released)."""
    return 0.1 * 0.95 ** jnp.ceil((step / 10).astype(jnp.float32))


ALIGNMENT = optax.chain(  # v = mu v + eta F: the rate sits inside the velocity (Eq. 12)
    optax.scale_by_learning_rate(alignment_rate), optax.trace(decay=0.9)
)

MAX_STEPS, PATIENCE = 500, 10  # of the alignment, as in the released code


class Alignment(NamedTuple):
    """State of the alignment loop."""

    step: Array  # iterations done
    point: Array  # [C, D]
    opt: Tree
    force: Array  # mean length of the forces, in units of 1e-4, rounded
    same: Array  # consecutive iterations without a change of `force`


def align(
    mean_CD: Array,
    present_C: Array,
    *,
    max_steps: int = MAX_STEPS,
    patience: int = PATIENCE,
) -> tuple[Array, Array]:
    """Aligns prototypes: spreads unit vectors by mutual repulsion (Algorithm 1).

    Args:
      mean_CD: prototypes, any length.
      present_C: bool; absent rows exert no force and are returned unchanged.
      max_steps: iterations at most.
      patience: stop when the mean force, rounded to 4 decimals, has not changed for
        this many iterations in a row, from 10 on (docs/decisions.md#alignment).

    Returns:
      Unit prototypes [C, D] and the number of iterations done.
    """
    onwards, iterate, start = _loop(mean_CD, present_C, max_steps, patience)
    end = lax.while_loop(onwards, iterate, start)
    return jnp.where(present_C[:, None], end.point, mean_CD), end.step


def align_trace(mean_CD: Array, present_C: Array) -> tuple[Array, Array, Spacing]:
    """Aligns as `align`, and returns the spacing at each iteration (Figure 4).

    Returns:
      Results of `align`, bitwise equal, and the spacing [MAX_STEPS + 1] of the unit
      vectors before the first iteration and after each; nan after the last.
    """
    onwards, iterate, start = _loop(mean_CD, present_C, MAX_STEPS, PATIENCE)

    def note(trace, s):
        point_CD = lax.optimization_barrier(s.point)  # not fused with `iterate`
        now = spacing(point_CD, present_C)
        return jax.tree.map(lambda a, value: a.at[s.step].set(value), trace, now)

    def step(pair):
        s = iterate(pair[0])
        return s, note(pair[1], s)

    empty = Spacing(*[jnp.full(MAX_STEPS + 1, jnp.nan)] * len(Spacing._fields))
    first = start, note(empty, start)
    end, trace = lax.while_loop(lambda pair: onwards(pair[0]), step, first)
    return jnp.where(present_C[:, None], end.point, mean_CD), end.step, trace


def _loop(mean_CD, present_C, max_steps, patience):
    """Returns condition, body and first state of the alignment loop."""
    chex.assert_rank([mean_CD, present_C], [2, 1])

    def onwards(s):
        return (s.step < max_steps) & (s.same < patience)

    def iterate(s):
        force_CD = repulsion(s.point, present_C)  # minus the gradient of Eq. 10
        move_CD, opt_state = ALIGNMENT.update(-force_CD, s.opt, s.point)
        length_C = jnp.linalg.norm(force_CD, axis=-1)
        force = jnp.round(1e4 * jnp.mean(length_C - radial, where=present_C))
        repeat = (s.step > 10) & (force == s.force)
        same = jnp.where(repeat, s.same + 1, 0)
        point_CD = normalise_rows(s.point + move_CD)  # Eq. 13, 14
        return Alignment(s.step + 1, point_CD, opt_state, force, same)

    # The radial part of every force is (C - 1) / 2. Without it float32 resolves the
    # fourth decimal. As 1e4 times the part is a whole number, the rest is rounded as
    # the full length would be.
    start_CD = normalise_rows(mean_CD)
    radial = ((jnp.sum(present_C) - 1) / 2).astype(start_CD.dtype)
    zero = jnp.zeros((), jnp.int32)
    start = Alignment(
        zero, start_CD, ALIGNMENT.init(start_CD), jnp.asarray(-1, radial.dtype), zero
    )
    return onwards, iterate, start


def smallest_angle(protos: Protos) -> Array:
    """Returns the smallest angle (degrees) of present prototypes; nan below two."""
    return min_over_pairs(angles(protos.mean), distinct_pairs(protos.count > 0))


def mean_angle(protos: Protos) -> Array:
    """Returns the mean angle (degrees) of present prototypes; nan below two."""
    return jnp.mean(angles(protos.mean), where=distinct_pairs(protos.count > 0))


@float32_matmuls
def max_nearest_distance(protos: Protos) -> Array:
    """Returns the largest distance of a present class to the nearest other one.

    It is inf for a single class, and 0 without any. The prototypes are centred first,
    as in `repulsion`.
    """
    present_C = protos.count > 0
    x_CD = centred(protos.mean, present_C.astype(protos.mean.dtype))
    square_CC, pair_CC = sq_distances_by_products(x_CD), distinct_pairs(present_C)
    nearest_C = jnp.min(jnp.where(pair_CC, square_CC, jnp.inf), 1)
    return jnp.sqrt(jnp.max(jnp.where(present_C, nearest_C, 0.0)))


def compress(mean: Array, index_CS: Array) -> Array:
    """Selects masked entries [..., C, S] of prototypes [..., C, D] (T Eq. 8)."""
    index = jnp.broadcast_to(index_CS, mean.shape[:-1] + index_CS.shape[-1:])
    return jnp.take_along_axis(mean, index, -1)


def decompress(value: Array, index_CS: Array, feat_dim: int) -> Array:
    """Expands compressed entries [..., C, S] to prototypes [..., C, D] (T Eq. 7).

    Other entries are zero.
    """
    zero = jnp.zeros((*value.shape[:-1], feat_dim), value.dtype)
    return zero.at[..., jnp.arange(len(index_CS))[:, None], index_CS].set(value)

"""Geometry of points: centres, distances, angles, and forces between them.

Equation numbers are those of ProtoNorm (docs/glossary.md).
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp

from jaxproto.core.types import Array


def float32_matmuls(f: Callable) -> Callable:
    """Makes matrix products in `f` full float32 on any device, as on CPUs."""

    @functools.wraps(f)
    def wrapped(*args, **kwargs):
        with jax.default_matmul_precision("highest"):
            return f(*args, **kwargs)

    return wrapped


def normalise_rows(mean_CD: Array) -> Array:
    """Scales rows to length 1; a zero row stays zero."""
    length_C1 = jnp.linalg.norm(mean_CD, axis=-1, keepdims=True)
    return mean_CD / jnp.maximum(length_C1, 1e-12)


@float32_matmuls
def angles(mean_CD: Array) -> Array:
    """Returns pairwise angles [C, C] in degrees."""
    unit_CD = normalise_rows(mean_CD)
    return jnp.degrees(jnp.arccos(jnp.clip(unit_CD @ unit_CD.T, -1.0, 1.0)))


FEW = 2**17  # numbers: half a MiB of differences


@float32_matmuls
def repulsion(point_CD: Array, present_C: Array) -> Array:
    """Computes sum_k (c_j - c_k) / |c_j - c_k|^2, the force on points (Eq. 11)."""
    chex.assert_rank([point_CD, present_C], [2, 1])
    on_C = present_C.astype(point_CD.dtype)
    pair_CC = on_C[:, None] * on_C * (1.0 - jnp.eye(len(on_C), dtype=on_C.dtype))
    force = by_differences if point_CD.size * len(on_C) <= FEW else by_products
    return force(centred(point_CD, on_C), pair_CC)


def by_differences(x_CD: Array, pair_CC: Array) -> Array:
    """Computes the force from all C * C * D differences, exact at any distance."""
    gap_CCD = x_CD[:, None] - x_CD
    weight_CC = pair_CC / (jnp.sum(gap_CCD**2, -1) + 1e-10)
    return jnp.einsum("jk,jkd->jd", weight_CC, gap_CCD)


def by_products(x_CD: Array, pair_CC: Array) -> Array:
    """Computes the force from inner products: two matrix products.

    The points must be centred: otherwise float32 loses every digit of a distance near
    1e-3, the state in which untrained networks start.
    """
    gram_CC = x_CD @ x_CD.T
    own_C = jnp.diagonal(gram_CC)
    square_CC = jnp.maximum(own_C[:, None] + own_C - 2 * gram_CC, 0.0)
    weight_CC = pair_CC / (square_CC + 1e-10)
    return jnp.sum(weight_CC, 1)[:, None] * x_CD - weight_CC @ x_CD


class Spacing(NamedTuple):
    """Spacing of unit vectors over pairs of present ones."""

    energy: Array  # sum of log(1 / distance) (Eq. 10)
    force: Array  # mean length of the forces (Eq. 11)
    smallest_angle: Array  # degrees, as the next; nan if there is no pair
    mean_angle: Array
    smallest_distance: Array
    mean_distance: Array
    largest_distance: Array


@float32_matmuls
def spacing(point_CD: Array, present_C: Array) -> Spacing:
    """Measures energy, forces, angles and distances of unit vectors.

    Angles come from distances, as products lose small ones in float32.
    """
    chex.assert_rank([point_CD, present_C], [2, 1])
    square_CC = pairwise_sq_distances(point_CD, present_C)
    away_CC, pair_CC = jnp.sqrt(square_CC), distinct_pairs(present_C)
    angle_CC = jnp.degrees(2 * jnp.arcsin(jnp.minimum(away_CC / 2, 1.0)))
    log_CC = jnp.where(pair_CC, jnp.log(square_CC + 1e-10), 0.0)  # as in `repulsion`
    force_C = jnp.linalg.norm(repulsion(point_CD, present_C), axis=-1)
    return Spacing(
        energy=-jnp.sum(log_CC) / 4,  # of squares, and of every pair twice
        force=jnp.mean(force_C, where=present_C),
        smallest_angle=min_over_pairs(angle_CC, pair_CC),
        mean_angle=jnp.mean(angle_CC, where=pair_CC),
        smallest_distance=min_over_pairs(away_CC, pair_CC),
        mean_distance=jnp.mean(away_CC, where=pair_CC),
        largest_distance=-min_over_pairs(-away_CC, pair_CC),
    )


def centroid(point_CD: Array, here_C: Array) -> Array:
    """Averages the points with 1 in `here_C`, not 0, to [D]; 0 if there is none.

    It multiplies by a reciprocal: XLA replaces a division so in some programs only.
    """
    return here_C @ point_CD * (1 / jnp.maximum(jnp.sum(here_C), 1.0))


def centred(point_CD: Array, here_C: Array) -> Array:
    """Subtracts the centroid from the points with 1 in `here_C`; others become 0."""
    return (point_CD - centroid(point_CD, here_C)) * here_C[:, None]


def distinct_pairs(present_C: Array) -> Array:
    """Returns whether two classes are different and both present [C, C]."""
    return present_C[:, None] & present_C & ~jnp.eye(len(present_C), dtype=bool)


def min_over_pairs(value_CC: Array, pair_CC: Array) -> Array:
    """Returns the smallest value of the pairs; nan if there is none."""
    smallest = jnp.min(jnp.where(pair_CC, value_CC, jnp.inf))
    return jnp.where(jnp.any(pair_CC), smallest, jnp.nan)


def pairwise_sq_distances(point_CD: Array, present_C: Array) -> Array:
    """Returns squared distances [C, C], by differences if few, as `repulsion`."""
    x_CD = centred(point_CD, present_C.astype(point_CD.dtype))
    if x_CD.size * len(x_CD) <= FEW:
        return jnp.sum((x_CD[:, None] - x_CD) ** 2, -1)
    return sq_distances_by_products(x_CD)


def sq_distances_by_products(x_CD: Array) -> Array:
    """Returns squared distances [C, C] of centred points, by a matrix product."""
    own_C = jnp.sum(x_CD**2, -1)
    return jnp.maximum(own_C[:, None] + own_C - 2 * x_CD @ x_CD.T, 0.0)

"""Masks of sent prototype coordinates by class (class-wise sparsification, CPS).

T: Lee, Choi: Communication-Efficient Heterogeneous Federated Learning with Sparse
Prototypes in Resource-Constrained Environments (TinyProto), Section 4.1. S: Enhancing
Prototype-Based Federated Learning with Structured Sparse Prototypes, Section 4.1.

A mask is one row of an index table [C, S] (int32, ascending), made once before training
by a function `(num_classes, feat_dim, s, seed) -> table`, such as `random_masks`.
"""

from collections.abc import Callable

import flax.struct
import numpy as np

from jaxproto import wire
from jaxproto.core.types import ArrayLike, Spec
from jaxproto.errors import UserError

Masks = Callable[[int, int, int, int], np.ndarray]
SWAPS = 100  # exchanges tried per class to move masks apart
TRIES = 100  # choices of blocks tried per class before one is used twice


def mask_indices(masks: Masks, spec: Spec, s: int, seed: int) -> np.ndarray:
    """Makes the index table [C, S] of a federation.

    Args:
      masks: such as `random_masks`.
      spec: numbers of classes and coordinates.
      s: coordinates per class; 0 is a tenth of all, T's default compression rate of 90%
        (T 5.1: 50 of 500).
      seed: of random masks.

    Raises:
      UserError: prototypes have fewer coordinates, or no block fits.
    """
    s = coordinates_per_class(s, spec.feat_dim)
    if not 0 < s <= spec.feat_dim:
        raise UserError(
            f"s is {s}, but prototypes have {spec.feat_dim} coordinates "
            "(model.feat_dim); choose s from 1 to that, or 0 for a tenth."
        )
    return masks(spec.num_classes, spec.feat_dim, s, seed)


def coordinates_per_class(s: int, feat_dim: int) -> int:
    """Returns the coordinates per class; 0 is a tenth of all, rounded up."""
    return s or -(-feat_dim // 10)


def full_masks(num_classes: int, feat_dim: int, s: int, seed: int) -> np.ndarray:
    """Keeps all coordinates of all classes: no sparsification."""
    return np.tile(np.arange(feat_dim, dtype=np.int32), (num_classes, 1))


def random_masks(num_classes: int, feat_dim: int, s: int, seed: int) -> np.ndarray:
    """Draws masks of exactly s coordinates, far apart in Hamming distance (T 4.1).

    Uses of coordinates differ by at most one, so that the sum of all distances is the
    largest possible, and masks are disjoint if C s <= D. Exchanges between classes then
    balance the distances, which raises the smallest.
    """
    rng = np.random.default_rng(seed)
    mask_CD = _draw_balanced(num_classes, feat_dim, s, rng)
    if num_classes * s > feat_dim and s < feat_dim:
        _move_apart(mask_CD, rng)
    return _indices(mask_CD)


def _draw_balanced(num_classes, feat_dim, s, rng):
    """Draws s coordinates for each class, from one random permutation after another.

    A class for which a permutation has too few left completes its mask from the next.
    """
    mask_CD = np.zeros((num_classes, feat_dim), bool)
    left = np.empty(0, np.int64)  # coordinates of the permutation
    for row_D in mask_CD:
        first, left = left[:s], left[s:]
        row_D[first] = True
        lacking = s - len(first)
        if lacking:
            fresh = rng.permutation(feat_dim)
            fresh = fresh[np.argsort(row_D[fresh], kind="stable")]  # unused ones first
            row_D[fresh[:lacking]] = True
            left = rng.permutation(fresh[lacking:])
    return mask_CD


def _move_apart(mask_CD, rng):
    """Exchanges coordinates between two classes while squared overlaps fall.

    Sizes of masks and uses of coordinates stay the same.
    """
    mask_CD = mask_CD.view(np.int8)
    overlap_CC = mask_CD.astype(int) @ mask_CD.T
    np.fill_diagonal(overlap_CC, 0)
    for _ in range(SWAPS * len(mask_CD)):
        a, b = rng.choice(len(mask_CD), 2, replace=False)
        only_a = np.flatnonzero(mask_CD[a] > mask_CD[b])
        only_b = np.flatnonzero(mask_CD[b] > mask_CD[a])
        if not len(only_a):
            continue
        x, y = rng.choice(only_a), rng.choice(only_b)
        gain_C = (mask_CD[:, y] - mask_CD[:, x]).astype(int)  # overlap with a
        gain_C[[a, b]] = 0  # the overlap of a with b stays
        fall = np.sum((overlap_CC[a] - overlap_CC[b] + gain_C) * gain_C)
        if fall < 0:
            overlap_CC[a] += gain_C
            overlap_CC[:, a] += gain_C
            overlap_CC[b] -= gain_C
            overlap_CC[:, b] -= gain_C
            mask_CD[a, [x, y]], mask_CD[b, [x, y]] = (0, 1), (1, 0)


def block_masks(num_classes: int, feat_dim: int, s: int, seed: int) -> np.ndarray:
    """Makes masks of whole blocks (S 4.1, released code; docs/decisions.md#masks).

    There are C blocks of floor(D / C) neighbouring coordinates; the rest is never used.
    Every class has floor(C s / D) blocks, which can be fewer than s coordinates. The
    first class has the last blocks, each further class the least used ones, which
    maximise the sum of its distances to the classes before. (The released code takes
    the best of 10,000 random choices.) No choice is repeated while there is another.

    Raises:
      UserError: a class would have no block.
    """
    length, blocks = feat_dim // num_classes, num_classes * s // feat_dim
    if not length * blocks:
        least = -(-feat_dim // num_classes)
        larger = f"take s of at least {least} or " * (least <= feat_dim and length > 0)
        raise UserError(
            f"block masks of s = {s} coordinates out of {feat_dim} leave {num_classes} "
            f"classes with {blocks} blocks of {length} coordinates each; {larger}use "
            "free masks (method.masks=free) or parts of blocks "
            "(method.masks=block_exact), which take any s."
        )
    return exact_block_masks(num_classes, feat_dim, length * blocks, seed)


def exact_block_masks(num_classes: int, feat_dim: int, s: int, seed: int) -> np.ndarray:
    """Makes masks of exactly s coordinates in blocks (S 4.1 has K s / D whole blocks).

    If s fills whole blocks, masks are those of `block_masks`. Otherwise a class takes
    one block more, and keeps only the least used coordinates of its most used block.
    Blocks have one coordinate if D < C, and s may be from 1 to D: coordinates outside
    of blocks are taken last.
    """
    length, blocks = max(feat_dim // num_classes, 1), min(num_classes, feat_dim)
    inside = min(s, blocks * length)
    number, part = -(-inside // length), inside % length
    rng, taken = np.random.default_rng(seed), set[bytes]()
    use_BL = np.zeros((blocks, length), int)
    mask_CD = np.zeros((num_classes, feat_dim), bool)
    for c, row_D in enumerate(mask_CD):
        use_B = use_BL.mean(1)
        row_B = np.arange(blocks) >= blocks - number
        row_B = _least_used(use_B, number, taken, rng) if c else row_B
        taken.add(row_B.tobytes())
        row_BL = np.repeat(row_B[:, None], length, 1)
        if part:
            last = np.argmax(np.where(row_B, use_B, -1))
            row_BL[last] = np.argsort(np.argsort(use_BL[last], kind="stable")) < part
        use_BL += row_BL
        row_D[: blocks * length] = row_BL.ravel()
        row_D[blocks * length : blocks * length + s - inside] = True
    return _indices(mask_CD)


def _least_used(use_C, blocks, taken, rng):
    """Chooses the least used blocks for a class; ties are broken at random.

    If another class has the same blocks, it tries again with more randomness.
    """
    for attempt in range(TRIES):
        chance_C = rng.random(len(use_C)) * max(1, attempt / 10)
        row_C = np.zeros(len(use_C), bool)
        row_C[np.argsort(use_C + chance_C)[:blocks]] = True
        if row_C.tobytes() not in taken:
            break
    return row_C


def _indices(mask_CD):
    return np.nonzero(mask_CD)[1].reshape(len(mask_CD), -1).astype(np.int32)


def bitmap(index_CS: np.ndarray, feat_dim: int) -> np.ndarray:
    """Returns the masks as [C, D] bool."""
    mask_CD = np.zeros((len(index_CS), feat_dim), bool)
    np.put_along_axis(mask_CD, index_CS, True, -1)
    return mask_CD


class SentMasks(flax.struct.PyTreeNode, eq=False):  # compared by identity
    """Masks as they are sent once; part of a method."""

    masks: ArrayLike  # [C, D] bool, or the index table [C, S] in its smallest integers


def mask_message(index_CS: np.ndarray, feat_dim: int) -> SentMasks | tuple:
    """Returns the message of all masks, in the form with fewer bytes."""
    if index_CS.shape[1] == feat_dim:
        return ()
    small = index_CS.astype(np.min_scalar_type(feat_dim - 1))
    bits = wire.bitmap_bytes(len(index_CS) * feat_dim)
    return SentMasks(small if small.nbytes < bits else bitmap(index_CS, feat_dim))

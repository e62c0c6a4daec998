"""Masks of class-wise sparsification: sizes and distances."""

import functools

import numpy as np
from support.every import every
from support.refusal import refused

from jaxproto.core.types import Spec
from jaxproto.prototypes import masks

# CIFAR-10, AG News, GTSRB, CIFAR-100, Flowers-102 at d = 500
FREE = [(k, 500, 50) for k in (10, 4, 43, 100, 102)]
free = functools.cache(masks.random_masks)


def bitmaps(index_CS, d):
    mask_CD = masks.bitmap(index_CS, d)
    assert np.all(mask_CD.sum(1) == index_CS.shape[1])  # no index twice
    assert np.all(np.diff(index_CS) > 0) and index_CS.dtype == np.int32
    return mask_CD


def distances(mask_CD):
    i, j = np.triu_indices(len(mask_CD), 1)
    return (mask_CD[i] != mask_CD[j]).sum(1)


@every([*FREE, (7, 10, 9), (5, 8, 8), (5, 8, 1), (10, 500, 250)])
def test_free_masks_have_exactly_s_ones_and_use_coordinates_evenly(k, d, s):
    """Masks with K s <= d are disjoint: their distance is the largest possible, 2 s."""
    mask_CD = bitmaps(free(k, d, s, 0), d)
    assert mask_CD.shape == (k, d) and np.all(mask_CD.sum(1) == s)
    assert np.ptp(mask_CD.sum(0)) <= 1
    assert k * s > d or np.all(distances(mask_CD) == 2 * s)


@every([(43, 500, 50), (102, 500, 50), (10, 60, 20)])
def test_free_masks_are_further_apart_than_random_ones(k, d, s):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        drawn = np.sort(rng.permuted(np.tile(np.arange(d), (k, 1)), axis=1)[:, :s])
        random = distances(bitmaps(drawn.astype(np.int32), d))
        ours = distances(bitmaps(free(k, d, s, seed), d))
        assert ours.min() > random.min() and ours.mean() >= random.mean()


def test_masks_depend_on_the_seed_alone():
    for make in (masks.random_masks, masks.block_masks, masks.exact_block_masks):
        a, b, c = (make(10, 500, 250, seed) for seed in (0, 0, 1))
        np.testing.assert_array_equal(a, b)
        assert np.any(a != c)


S_EFF = [(500, 10, 50), (500, 100, 50), (500, 43, 44), (500, 102, 40), (500, 200, 40)]
S_EFF += [(1000, 43, 92), (1000, 102, 90), (1000, 200, 100)]


@every(S_EFF)
def test_blocks_keep_what_the_released_code_keeps_at_a_tenth(d, k, kept):
    """docs/decisions.md#masks; the dimensions used are K floor(d / K)."""
    mask_CD = bitmaps(masks.block_masks(k, d, d // 10, 0), d)
    assert mask_CD.shape == (k, d) and np.all(mask_CD.sum(1) == kept)
    length = d // k
    used_CD, rest_CD = np.split(mask_CD, [k * length], 1)
    whole = used_CD.reshape(k, k, length)
    assert np.all(whole.all(-1) == whole.any(-1)) and not rest_CD.any()
    assert np.all(whole[0, -kept // length :])  # the first takes the last ones
    # evenly used: the sum of all distances is the largest possible
    assert np.all(used_CD.sum(0) == kept // length)
    assert len({row.tobytes() for row in mask_CD}) == k


EXACT = [(10, 500, 50), (200, 500, 50), (200, 500, 250), (43, 500, 50), (4, 500, 50)]
EXACT += [(102, 500, 50), (10, 64, 7), (102, 100, 10), (6, 2, 1), (10, 64, 62)]


@every(EXACT)
def test_exact_blocks_have_s_coordinates_in_as_few_blocks_as_hold_them(k, d, s):
    mask_CD = bitmaps(masks.exact_block_masks(k, d, s, 0), d)
    assert mask_CD.shape == (k, d) and np.all(mask_CD.sum(1) == s)
    length, blocks = max(d // k, 1), min(d, k)
    used_CD = mask_CD[:, : blocks * length]
    touched = used_CD.reshape(k, blocks, length).any(-1).sum(1)
    assert np.all(touched == -(-min(s, blocks * length) // length))
    assert np.ptp(used_CD.sum(0)) <= (2 if s % length else 1)


def test_blocks_of_all_coordinates_are_full_masks():
    full = masks.full_masks(5, 10, 10, 0)
    np.testing.assert_array_equal(masks.block_masks(5, 10, 10, 0), full)


def test_s_is_at_most_the_coordinates_a_tenth_if_zero_and_fits_whole_blocks():
    """T 5.1: 50 of 500, a compression rate of 90%."""
    with refused("s is 70, but prototypes have 64 coordinates"):
        masks.mask_indices(masks.random_masks, Spec(10, 64), 70, 0)
    assert masks.mask_indices(masks.random_masks, Spec(10, 500), 0, 0).shape == (10, 50)
    assert masks.mask_indices(masks.random_masks, Spec(5, 8), 0, 0).shape == (5, 1)
    for k, d, s, way in (
        (4, 500, 124, "at least 125 or use free"),  # AG News
        (102, 100, 10, "coordinates each; use free"),  # Flowers-102 in 100 dimensions
    ):
        with refused(way) as e:
            masks.block_masks(k, d, s, 0)
        assert f"s = {s} coordinates out of {d}" in str(e.value)
    assert masks.block_masks(4, 500, 125, 0).shape == (4, 125)

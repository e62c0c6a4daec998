"""Robust centres against numpy, alone and of uploads."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from support.every import check_every

from jaxproto.robustness import CENTRES
from jaxproto.robustness.robust_aggregation import centred
from jaxproto.types import Protos

SHARE = 0.3
RNG = np.random.default_rng(0)


def trimmed(x, share):
    b = min(int(np.ceil(share * len(x) - 1e-4)), (len(x) - 1) // 2)
    return np.sort(x, 0)[b : len(x) - b].mean(0)


def clipped(x, share):
    length = np.linalg.norm(x, axis=1)
    limit = np.sort(length)[(len(x) - 1) // 2]
    return (x * np.minimum(1, limit / length)[:, None]).mean(0)


def krum(x, share):
    b = min(int(np.ceil(share * len(x) - 1e-4)), (len(x) - 1) // 2)
    score = []
    for i in range(len(x)):
        away = np.sort([np.sum((a - x[i]) ** 2) for j, a in enumerate(x) if j != i])
        score.append(away[: max(len(x) - b - 2, 1)].sum())
    return x[np.argmin(score)]


def geometric(x, share):
    point = x.mean(0)
    for _ in range(3000):
        away = np.maximum(np.linalg.norm(x - point, axis=1), 1e-12)
        point = (x / away[:, None]).sum(0) / (1 / away).sum()
    return point


REFERENCES = {"trimmed_mean": trimmed, "clipped_mean": clipped, "krum": krum}
REFERENCES |= {"geometric_median": geometric}
REFERENCES |= {"median": lambda x, share: np.median(x, 0)}


def test_centres_are_those_of_numpy_over_the_senders_alone():
    assert {*REFERENCES} == {*CENTRES}

    def check(name, senders, share):
        x = RNG.normal(size=(9, 5)).astype(np.float32)
        sent = RNG.permutation(np.arange(9) < senders)
        found = jax.jit(CENTRES[name])(jnp.asarray(x), jnp.asarray(sent), share)
        wanted = REFERENCES[name](x[sent].astype(float), share)
        if name == "geometric_median":  # many points may be nearly as good
            away = (np.linalg.norm(x[sent] - p, axis=1) for p in (found, wanted))
            found, wanted = (a.sum() for a in away)
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)

    check_every([*itertools.product(CENTRES, (1, 2, 3, 6, 9), (0.2, SHARE))], check)


def test_no_minority_moves_a_centre_far():
    honest = RNG.normal(size=(7, 4)).astype(np.float32)
    for name, centre in CENTRES.items():
        for far in (50.0, 1e30):
            x = jnp.asarray(np.concatenate([honest, np.full((3, 4), far)]), jnp.float32)
            found = centre(x, jnp.ones(10, bool), SHARE)
            assert np.linalg.norm(found) < 3.0, (name, far)


def test_uploads_have_one_centre_per_class_and_one_of_all_arrays():
    """Lost and infinite uploads count in neither; whole numbers stay."""
    mean = RNG.normal(size=(6, 3, 2)).astype(np.float32)
    count = np.float32([[1, 1, 0], [1, 0, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1], [0] * 3])
    mean *= count[..., None] > 0
    mean[4, 2] = np.nan  # so that all of client 4 is lost
    weights = RNG.normal(size=(6, 2, 2)).astype(np.float32)
    weights[5] = 0
    size = np.int32([3, 1, 4, 1, 5, 0])
    up = Protos(jnp.asarray(mean), jnp.asarray(count)), jnp.asarray(weights), size
    of_krum = jax.jit(lambda up: centred(up, CENTRES["krum"], SHARE))
    protos, arrays, sizes = jax.device_get(of_krum(up))
    np.testing.assert_array_equal(sizes, [3, 1, 4, 1, 0, 0])
    held = [[0, 1, 2, 3], [0, 2, 3]]
    for c, who in enumerate(held):
        wanted = krum(mean[who, c], SHARE)
        np.testing.assert_allclose(protos.mean[who, c], [wanted] * len(who), rtol=1e-5)
    assert not protos.count[4:].any() and not protos.mean[:, 2].any()
    wanted = krum(weights[:4].reshape(4, -1), SHARE).reshape(2, 2)
    np.testing.assert_allclose(arrays[:4], [wanted] * 4, atol=1e-5)
    assert not arrays[4:].any()

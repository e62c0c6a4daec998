"""TinyProto against its equations: what is aggregated and compared."""

from itertools import product

import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.every import every
from support.exchange import COUNT, KEY, MEAN, Y, exchange
from support.refusal import refused

from jaxproto import config
from jaxproto.core.types import Protos, Spec
from jaxproto.experiment import method_builder
from jaxproto.methods import tinyproto as tp
from jaxproto.methods.fedproto import train_pass
from jaxproto.prototypes import losses, masks

S, MU = 3, 0.1
INDEX = masks.random_masks(5, 8, S, 0)
MASK = masks.bitmap(INDEX, 8)
HOLDERS = (COUNT > 0).sum(0)  # |N_j|
HERE = HOLDERS > 0


def tiny(**arguments):
    fixed = {"s": S, "mu": MU, "collect": train_pass}
    return toys.method(tp.tinyproto, **{**fixed, **arguments})


FP, NO_PULL = tiny(), tiny(lam=0.0)


def full(compressed):
    """Compressed prototypes in their places."""
    out = np.zeros((*compressed.shape[:-1], 8), np.float32)
    np.put_along_axis(out, np.broadcast_to(INDEX, compressed.shape), compressed, -1)
    return out


SCALINGS = {  # times what the mean over N_j is multiplied
    "sum": (tp.SUM, COUNT, MU),
    "mean": (tp.MEAN, COUNT, MU / np.maximum(HOLDERS, 1)),
    "none": (tp.UNSCALED, COUNT > 0, 1 / np.maximum(HOLDERS, 1)),
}


@every(SCALINGS)
def test_the_server_aggregates_as_every_reading_has_it(name):
    """Eq. 9 (none), Eq. 10 and 11 (mean), and Eq. 10 as the code reads it (sum)."""
    scaling, weight, factor = SCALINGS[name]
    protos = exchange(FP if scaling is tp.SUM else tiny(scaling=scaling)).server.protos
    want = np.zeros((5, 8))
    for j, i in np.ndindex(5, 3):
        want[j] += weight[i, j] * MEAN[i, j] * MASK[j]
    want *= np.broadcast_to(factor, 5)[:, None]
    np.testing.assert_allclose(full(protos.mean), want, atol=1e-5)
    np.testing.assert_array_equal(protos.count > 0, HERE)


@every([(tp.DENSE, np.ones((5, 8))), (tp.SPARSE, MASK)])
def test_the_pull_sees_the_coordinates_it_should(compare, seen):
    """T Eq. 11: all, drawn to 0 outside the mask. S 4.3: those in the mask."""
    kind = {"compare": compare, "reg": losses.sq_l2_mean, "lam": 1.0}
    with_pull, without = exchange(tiny(**kind)), exchange(NO_PULL)
    target = full(with_pull.down.mean)
    pairs = zip(with_pull.feat, Y, strict=True)
    each = [HERE[y] * np.sum((f * seen[y] - target[y]) ** 2) for f, y in pairs]
    np.testing.assert_allclose(with_pull.loss - without.loss, np.mean(each), rtol=1e-4)


def test_the_rule_of_the_sparse_pull_compares_by_the_masks_of_the_classes():
    rng = np.random.default_rng(2)
    feat, mean = (rng.normal(size=(n, 8)).astype(np.float32) for n in (4, 5))
    protos = Protos(mean * MASK, np.float32([1, 1, 0, 1, 1]))
    got = tp.SPARSE.rules(jnp.float32(MASK), feat, protos)["global_masked"]
    for b in range(4):
        for j in (0, 1, 3, 4):
            far = sum((feat[b, i] - mean[j, i]) ** 2 for i in INDEX[j])
            np.testing.assert_allclose(got[b, j], -far / 8, atol=1e-5)
    assert np.all(np.isneginf(got[:, 2]))


def test_masks_and_an_s_that_fit_any_number_of_classes_or_are_refused():
    """GTSRB, Flowers-102; and more classes than coordinates."""
    np.testing.assert_array_equal(FP.setup.masks, MASK)
    assert tiny(masks=masks.full_masks).setup == ()
    assert np.any(tiny(mask_seed=1).setup.masks != MASK)
    hash(FP)  # a static argument of the compiled programs
    for k, d in ((43, 500), (102, 64)):
        method = toys.method(tp.tinyproto, Spec(k, d), s=50, mu=1e-3)
        assert method.init_server(None, KEY).protos.mean.shape == (k, 50)
    fields = config.load("configs/tinyproto.py:digits").method
    for name in ("free", "block_exact"):
        fields.masks = name
        assert method_builder.build_method(fields, Spec(102, 64), 60).setup
    fields.masks = "block"
    with refused("method.masks=free", "=block_exact"):
        method_builder.build_method(fields, Spec(102, 64), 60)


def test_mu_zero_makes_0_9_times_the_mean_on_balanced_classes():
    """As CIFAR's published ones, with the examples that the release counts."""
    a, b = (
        m.update(None, m.init_server(None, KEY), exchange(FP).up, KEY)
        for m in (tiny(mu=0.0, num_examples=50), tiny(mu=0.9 * 5 / 50))
    )
    assert toys.gap(a, b) == 0 and np.any(a.protos.mean != 0)
    with refused("mu is 0, so that it follows"):
        tiny(mu=0.0)
    assert tiny(mu=0.0, scaling=tp.UNSCALED).setup != ()  # which needs neither


@pytest.mark.long
def test_sums_of_participants_are_as_large_as_if_all_examples_took_part():
    """By n / sum of the participants' n_i, here 5 to 15 examples of six clients."""
    both, samplers = [], (toys.EVERYONE, toys.only(*range(4)))
    for scaling, sampler in product((tp.SUM, tp.SUM_OF_PARTICIPANTS), samplers):
        method = tiny(scaling=scaling, num_examples=60, lam=0.0)
        both.append(toys.run(method, rounds=1, sampler=sampler))
    every, some, whole, part = (r.server.protos.mean for r in both)
    assert toys.gap(every, whole) == 0 and np.any(some != 0)
    np.testing.assert_allclose(part, some * (60 / (5 + 7 + 9 + 11)), rtol=1e-5)
    assert both[3].report.up.size.tolist()[:4] == [5, 7, 9, 11]
    with refused("needs num_examples"):
        tiny(scaling=tp.SUM_OF_PARTICIPANTS)

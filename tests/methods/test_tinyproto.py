"""TinyProto against its equations: what is sent, aggregated, and compared."""

import functools
from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.every import every
from support.exchange import COUNT, KEY, MEAN, Y, client
from support.exchange import exchange as uncached
from support.refusal import refused

from jaxproto import config, losses, masks
from jaxproto.errors import UserError
from jaxproto.experiment import method_builder
from jaxproto.methods import fedtgp
from jaxproto.methods import tinyproto as tp
from jaxproto.methods.fedproto import train_pass
from jaxproto.types import Protos, Spec

S, MU = 3, 0.1
INDEX = masks.random_masks(5, 8, S, 0)
MASK = masks.bitmap(INDEX, 8)
HOLDERS = (COUNT > 0).sum(0)  # |N_j|
HERE = HOLDERS > 0


exchange = functools.cache(uncached)


def tiny(**arguments):
    fixed = {"s": S, "mu": MU, "collect": train_pass}
    return toys.method(tp.tinyproto, **{**fixed, **arguments})


FP, NO_PULL = tiny(), tiny(lam=0.0)


def full(compressed):
    """Compressed prototypes in their places."""
    out = np.zeros((*compressed.shape[:-1], 8), np.float32)
    np.put_along_axis(out, np.broadcast_to(INDEX, compressed.shape), compressed, -1)
    return out


def test_a_client_sends_the_masked_part_times_its_training_counts():
    """Algorithm 1, lines 5 and 6; n_ij stays hidden, presence alone is sent (T 4.2)."""
    up = exchange(FP).up
    assert up.mean.shape == (3, 5, S)
    want = COUNT[..., None] * MEAN * MASK
    np.testing.assert_allclose(full(up.mean), want, atol=1e-5)
    assert not up.disclosed
    np.testing.assert_array_equal(up.count, COUNT > 0)


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
    """And is there with that pull only."""
    rng = np.random.default_rng(2)
    feat, mean = (rng.normal(size=(n, 8)).astype(np.float32) for n in (4, 5))
    protos = Protos(mean * MASK, np.float32([1, 1, 0, 1, 1]))
    got = tp.SPARSE.rules(jnp.float32(MASK))(feat, protos)["global_masked"]
    for b in range(4):
        for j in (0, 1, 3, 4):
            far = sum((feat[b, i] - mean[j, i]) ** 2 for i in INDEX[j])
            np.testing.assert_allclose(got[b, j], -far / 8, atol=1e-5)
    assert np.all(np.isneginf(got[:, 2]))
    net, x = toys.net(8), jnp.zeros((2, toys.INPUT))
    for method, there in ((FP, False), (tiny(compare=tp.SPARSE), True)):
        params, norm, memory = method.init_client(net, KEY)
        me = client(params, norm, jnp.ones(5)).replace(memory=memory)
        down = method.broadcast(method.init_server(net, KEY))
        rules = jax.eval_shape(functools.partial(method.predict, net), me, x, down)
        assert ("global_masked" in rules) == there and "global" in rules


@jax.jit
def whole_step(c_KCD):
    """FedTGP's own first step with uploads of all coordinates."""
    method = toys.method(fedtgp.fedtgp, server_epochs=2)
    up = Protos(c_KCD, jnp.float32(COUNT > 0))
    return method.update(None, method.init_server(None, KEY), up, KEY)


@pytest.mark.long
@every(SCALINGS)
def test_ft_trains_on_scaled_uploads_filled_with_zeros_and_masks_what_leaves(name):
    """S Appendix C: (mu |N_j|) n_ij c_ij; the code without `ani`: mu n_ij c_ij."""
    scaling, weight, _ = SCALINGS[name]
    factor = {"sum": MU * HOLDERS, "mean": MU, "none": 1.0}[name]
    c_KCD = weight[..., None] * MEAN * MASK * np.broadcast_to(factor, 5)[:, None]
    want = whole_step(np.float32(c_KCD))
    r = exchange(tiny(base=tp.on_fedtgp, server_epochs=2, scaling=scaling))
    got = r.server
    np.testing.assert_array_equal(r.up.count, COUNT > 0)
    assert not r.up.disclosed and got.protos.mean.shape == (5, S)
    assert toys.gap(got.network, want.network) < 1e-4
    mean = want.protos.mean * MASK
    np.testing.assert_allclose(full(got.protos.mean), mean, atol=1e-4)


def test_masks_and_an_s_that_fit_any_number_of_classes_or_are_refused():
    """AG News, GTSRB, Flowers-102; and more classes than coordinates."""
    np.testing.assert_array_equal(FP.setup.masks, MASK)
    assert tiny(masks=masks.full_masks).setup == ()
    assert np.any(tiny(mask_seed=1).setup.masks != MASK)
    hash(FP)  # a static argument of the compiled programs
    for k, d in ((4, 500), (43, 500), (102, 64)):
        method = toys.method(tp.tinyproto, Spec(k, d), s=50, mu=1e-3)
        assert method.init_server(None, KEY).protos.mean.shape == (k, 50)
    with pytest.raises(UserError, match=r"method\.masks=free.*=block_exact"):
        method_builder.build_method(fields(masks="block"), Spec(102, 64), 60)
    for name in ("free", "block_exact"):
        assert method_builder.build_method(fields(masks=name), Spec(102, 64), 60).setup


def fields(**changes):
    c = config.load("configs/tinyproto.py:digits").method
    c.update(changes)
    return c


def test_mu_zero_is_what_the_published_ones_come_to_on_balanced_classes():
    """Mu times the examples of a class is 0.9, for CIFAR-10's and CIFAR-100's."""
    a, b = (
        m.update(None, m.init_server(None, KEY), exchange(FP).up, KEY)
        for m in (tiny(mu=0.0, num_examples=50), tiny(mu=0.9 * 5 / 50))
    )
    assert toys.gap(a, b) == 0 and np.any(a.protos.mean != 0)
    with refused("mu is 0, so that it follows"):
        tiny(mu=0.0)
    assert tiny(mu=0.0, scaling=tp.UNSCALED).setup != ()  # which needs neither


ABLATION = {  # Table 4: flags -> what is sent of a class, and its factor (digits)
    "neither": ({"masks": "none", "scaling": "none"}, 64, 1),
    "cps": ({"scaling": "none"}, 7, 1),
    "aps": ({"masks": "none"}, 64, 6),
    "both": ({}, 7, 6),
}


@every(product(ABLATION.values(), ("fedproto", "fedtgp")))
def test_every_row_of_table_4_is_reached_by_flags(row, base):
    (flags, length, factor), spec = row, Spec(10, 64)
    chosen = fields(base=base, collect="train_pass", **flags)
    method = method_builder.build_method(chosen, spec, 60)
    after = SimpleNamespace(count=jnp.full(10, 6.0))
    sums = jnp.ones((10, 64)) * 6, jnp.full(10, 6.0)
    up, _ = method.upload(None, None, after, None, None, sums)
    np.testing.assert_allclose(up.mean, np.full((10, length), factor))
    assert hasattr(method.init_server(None, KEY), "network") == (base == "fedtgp")


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

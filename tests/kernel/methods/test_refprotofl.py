"""RefProtoFL: anchors, the choice of entries, their mean, and what leaves a client."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.flatten_util import ravel_pytree
from support import toys
from support.refusal import refused

from jaxproto.core.types import Batch, Protos, Spec
from jaxproto.methods import refprotofl as ref

WIDTH = 6
POOL, ROWS = toys.pool_and_rows()
Y = np.asarray(POOL.y)
SIZES = np.array([len(rows) for rows in ROWS])
SPARE = np.setdiff1d(np.arange(len(Y)), np.concatenate(ROWS))  # nobody's rows
COVERED = (0, 3)
PUBLIC = np.concatenate([SPARE[Y[SPARE] == c][:4] for c in COVERED]).astype(np.int32)


@functools.cache
def make(**options):
    return ref.refprotofl(toys.SPEC, **{"adapter_dim": WIDTH, "lam": 0.3, **options})


@functools.cache
def run(rounds=1, sampler=toys.EVERYONE, **options):
    return toys.run(make(**options), rounds=rounds, sampler=sampler, public=PUBLIC)


def start():
    return run(0).server


def client(i):
    return run(0).clients[i]


def flat(adapter):
    return np.asarray(ravel_pytree(adapter)[0])


def trained(r):
    return np.stack([flat(r.params[i]["adapter"]) for i in range(len(ROWS))])


def test_each_entry_is_the_mean_over_those_who_sent_it_or_stays():
    """And exactly the budget is sent; a lost update counts nothing."""
    r, old = run(sampler=toys.only(*range(6), reports=range(4))), flat(start().adapter)
    value_KP, count = trained(r), round(0.1 * len(old))
    sent_KP = np.zeros(value_KP.shape, bool)
    for k, value_P in enumerate(value_KP[:4]):
        most = np.argsort(-np.abs(value_P - old), kind="stable")
        sent_KP[k, most[:count]] = True
    new = old.copy()
    for i in np.flatnonzero(sent_KP.any(0)):
        who = np.flatnonzero(sent_KP[:, i])
        new[i] = np.sum(SIZES[who] * value_KP[who, i]) / SIZES[who].sum()
    assert np.array_equal(r.report.up.adapter.sent, sent_KP)
    assert np.max(np.abs(flat(r.server.adapter) - new)) < 1e-6
    assert not sent_KP.any(0).all()
    assert r.report.scalars.tolist() == [count + 1] * 4 + [0] * 2
    assert r.report.up.size.tolist() == [*SIZES[:4], 0, 0]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 3), min_size=7, max_size=7), st.floats(0.001, 1.0))
def test_equal_moves_do_not_change_how_many_are_sent(moves, budget):
    count = int(ref.budget_size(budget, len(moves)))
    chosen = np.asarray(ref.top_k_mask(jnp.asarray(moves, jnp.float32), count))
    assert chosen.sum() == count == max(1, round(np.float32(budget) * 7))
    assert min(np.array(moves)[chosen]) >= max(np.array(moves)[~chosen], default=0)


def test_anchors_are_the_means_of_the_equations_of_what_clients_see():
    """Public means of classes 0 and 3 from all but client 1; own ones of the rest."""
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(2, 4, 5, WIDTH)).astype(np.float32)
    public = (np.arange(4) != 1)[:, None] * np.isin(np.arange(5), COVERED)
    own = public.any(1, keepdims=True) * ~np.isin(np.arange(5), COVERED)
    own = own * rng.integers(0, 4, (4, 5))
    own[1, COVERED[0]] = 2  # the public mean of others counts (Eq. 16)
    own[:, 4] = 0  # class 4 is nowhere
    count = [np.asarray(c, np.float32) for c in (public, own)]
    seen = ref.AnchorUpload(
        *(Protos(m * (c > 0)[..., None], c) for m, c in zip(mean, count, strict=True))
    )
    got = ref.aggregate_anchors(start(), jax.tree.map(jnp.asarray, seen), None).anchors
    for c in range(5):
        if c in COVERED:  # Eq. 14: uniform over those who take part
            want = np.mean([seen.public.mean[k, c] for k in (0, 2, 3)], 0)
        elif n := sum(seen.own.count[:, c]):  # Eq. 15
            want = sum(seen.own.count[k, c] * seen.own.mean[k, c] for k in range(4)) / n
        assert (got.count[c] == 1) == (c != 4)
        assert c == 4 or np.max(np.abs(got.mean[c] - want)) < 1e-6
    r, net = run(), toys.net(8)
    for i in (0, 5):  # in evaluation mode with the broadcast adapter
        params, norm = client(i).params["net"], client(i).norm["net"]
        z = ref.embed(start().adapter, net.apply(params, norm, POOL.x, False).feat)
        up = jax.tree.map(lambda a, i=i: a[i], r.pre_upload.up)
        for c in range(5):
            mine = PUBLIC if c in COVERED else ROWS[i]
            rows = mine[Y[mine] == c]
            part = up.public if c in COVERED else up.own
            other = up.own if c in COVERED else up.public
            assert part.count[c] == (1 if c in COVERED else len(rows))
            assert other.count[c] == 0
            if len(rows):
                want = np.mean(np.asarray(z)[rows], 0)
                assert np.max(np.abs(part.mean[c] - want)) < 1e-5


def test_a_round_begins_with_the_broadcast_adapter_and_the_own_head_rests():
    before, down = client(1).params, start()
    after = make().receive(before, down)
    assert toys.gap(before["adapter"], down.adapter) > 0
    assert toys.gap(after, before | {"adapter": down.adapter}) == 0
    for i in range(6):
        before, after = client(i).params["net"], run().params[i]["net"]
        assert toys.gap(before["head"], after["head"]) == 0
        assert toys.gap(before["body"], after["body"]) > 0


def test_a_frozen_backbone_keeps_its_bits_under_weight_decay_and_the_adapter_learns():
    decay = optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.05, momentum=0.9))
    local = dataclasses.replace(toys.LOCAL, opt=decay)
    given = {"local": local, "public": PUBLIC, "rounds": 2}
    frozen = toys.run(make(backbone=ref.FROZEN), **given)
    for i in range(6):
        before, after = client(i), frozen.clients[i]
        assert toys.gap(before.params["net"], after.params["net"]) == 0
        assert toys.gap(before.norm, after.norm) == 0
    assert toys.gap(flat(start().adapter), flat(frozen.server.adapter)) > 1e-3


def test_rules_take_the_own_or_the_broadcast_adapter():
    net, one, down = toys.net(8), run().clients[2], run().server
    equal = down._replace(adapter=one.params["adapter"])
    rules = make().predict(net, one, POOL.x, down)
    same = make().predict(net, one, POOL.x, equal)
    assert set(rules) == {"head", "received", "global"}
    assert toys.gap(rules["head"], rules["received"]) > 1e-4
    assert toys.gap(same["head"], same["received"]) == 0
    alone = make(anchors=ref.NONE).predict(net, one, POOL.x, down)
    assert set(alone) == {"head", "received"}


@jax.jit
def pulled(lam, count_C):
    """The loss of a batch, and its slope in the anchors."""
    net, method = toys.net(8), ref.refprotofl(toys.SPEC, adapter_dim=WIDTH, lam=lam)
    key = jax.random.key(0)
    params, norm, _ = method.init_client(net, key)
    batch = Batch(POOL.x[:8], POOL.y[:8], jnp.ones(8).at[6:].set(0), key)

    def loss(mean_CD):
        down = start()._replace(anchors=Protos(mean_CD, count_C))
        return method.loss(net, params, norm, batch, down, None)[0]

    return jax.value_and_grad(loss)(jnp.ones((5, WIDTH)))


def test_undefined_anchors_pull_nothing_and_the_sum_is_over_the_examples():
    nowhere, here = (pulled(0.3, count) for count in (jnp.zeros(5), jnp.ones(5)))
    assert nowhere[0] == pulled(0.0, jnp.ones(5))[0] < here[0]
    assert np.all(here[1] == 0)
    mean, z = jnp.asarray(np.random.default_rng(0).normal(size=(2, 5, WIDTH)))
    given = Protos(mean, jnp.ones(5)), z, jnp.arange(5), jnp.array([1.0, 1, 1, 0, 0])
    want = jnp.sum((z - mean)[:3] ** 2)
    assert np.isclose(ref.sq_l2_sum(*given), want)


def test_the_nominal_cost_of_the_stated_adapter_and_impossible_arguments():
    """An adapter of 512 * 128 + 128 + 128 * 10 + 10 entries."""
    method = ref.refprotofl(Spec(10, 512), adapter_dim=128, budget=0.1)
    without = 66_954 + 6_695 + 1
    assert method.nominal([3], {}) == without + 10 * 128 + 3 * 128
    alone = ref.refprotofl(Spec(10, 512), anchors=ref.NONE)
    assert alone.nominal([3], {}) == without
    for wrong in ({"adapter_dim": 0}, {"budget": 0.0}, {"budget": 1.5}):
        with refused(f"method.{next(iter(wrong))} is"):
            ref.refprotofl(toys.SPEC, **wrong)

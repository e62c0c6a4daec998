"""The methods that average whole networks: identities, formulas, refusals."""

import dataclasses
import functools
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toys

from jaxproto import client as clients
from jaxproto import config, federation, models, participation
from jaxproto.client import Local
from jaxproto.errors import UserError
from jaxproto.methods import METHODS, fast, fednh, fednova, feduv, vhl
from jaxproto.methods.fedavg import Sent
from jaxproto.methods.local import local
from jaxproto.presets import DATASETS
from jaxproto.types import Batch, Client, Data, Protos, Shard, Spec

WHOLE = ("fedavg", "fedprox", "fednova", "fednh", "feduv", "vhl", "fast")
SPEC = toys.SPEC
GOLDEN = np.load(Path(__file__).parent / "fixtures" / "kernels.npz")
ALIKE = Local(toys.HOW.opt, epochs=3, batch_size=19, whole=lambda size, _: size // size)


@functools.cache
def run(method, rounds=2, how=toys.HOW, law=toys.EVERYONE):
    return toys.run(method, rounds=rounds, how=how, law=law)


@functools.cache
def make(name, **fields):
    return METHODS[name](SPEC, **fields)


@functools.cache
def begun(method):
    """The server before the first round of `run`."""
    start, _ = toys.starter(method, toys.HOM, toys.HOW)(jax.random.key(3), COUNTS)
    return jax.device_get(start)


COUNTS = [toys.counts(*toys.pool_and_rows(), range(6))]
SIZES_K = 5 + 2 * np.arange(6)  # n_i of the toys
BASE = make("fedavg")


def by_size(*each):
    return np.average(np.stack(each), axis=0, weights=SIZES_K)


def drawn(tree, seed=0, lead=(2,)):
    """Made-up arrays in the shapes of a tree, with more axes before."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda a: rng.normal(size=(*lead, *a.shape)).astype(np.float32), tree
    )


# FedAvg


def test_the_global_network_is_the_mean_weighted_by_examples():
    r = run(BASE)
    want = jax.tree.map(by_size, *[r.params[i] for i in range(6)])
    assert toys.gap(want, r.server) < 1e-6


def test_a_lost_upload_does_not_count_and_without_any_the_network_stays():
    """Its upload is zeros, also its size."""
    old, params = begun(BASE), drawn(begun(BASE))
    first = jax.tree.map(lambda a: a[0], params)
    for sizes, want in (([7, 0], first), ([0, 0], old)):
        here = np.sign(sizes)
        sent = jax.tree.map(lambda a, h=here: (a.T * h).T, params)
        got = BASE.update(None, old, Sent(sent, jnp.asarray(sizes)), None)
        assert toys.gap(got, want) < 1e-6


def test_fedavg_of_one_client_is_local_training_from_the_same_start():
    def alone(key, clients, r):
        on_K = jnp.arange(clients) == 4
        return participation.Turnout(on_K, on_K)

    shared = dataclasses.replace(
        local(SPEC),
        init_client=lambda net, key: (
            BASE.init_server(net, jax.random.key(3)),
            *BASE.init_client(net, key)[1:],
        ),
    )
    one, other = (run(m, 3, law=alone) for m in (BASE, shared))
    assert toys.gap(one.params[4], other.params[4]) < 1e-6
    assert toys.gap(one.server, one.params[4]) < 1e-6


@pytest.mark.parametrize("name", WHOLE)
def test_one_architecture_is_asked_for_before_training(name):
    """The message names the cohort, the leaf and both shapes."""
    method = dataclasses.replace(make(name), fits=lambda x: None)
    x = jax.ShapeDtypeStruct((1, toys.INPUT), jnp.float32)
    with pytest.raises(UserError) as e:
        federation.check_cohorts(method, toys.cohorts(*toys.HET), SPEC, x)
    for word in ("'toy16'", "['net']['body']['in']", "(6, 16)", "(6, 8)"):
        assert word in str(e.value)
    federation.check_cohorts(method, toys.cohorts(*toys.HOM), SPEC, x)


@pytest.mark.parametrize("name", WHOLE)
def test_both_networks_are_evaluated(name):
    method, net, key = make(name), toys.net(8), jax.random.key(0)

    def rules(x):
        zero = jnp.zeros(())
        client = Client(
            *method.init_client(net, key)[:2],
            opt=(),
            memory=method.init_client(net, key)[2],
            count=zero,
            id=zero,
            steps=zero,
        )
        down = method.broadcast(method.init_server(net, key))
        return method.predict(net, client, x, down)

    found = jax.eval_shape(rules, jax.ShapeDtypeStruct((3, toys.INPUT), jnp.float32))
    assert set(found) == {"head", "received"}


# FedProx


def test_fedprox_with_mu_zero_is_fedavg():
    assert toys.gap(run(make("fedprox", mu=0.0)).server, run(BASE).server) == 0


def test_the_gradient_of_the_proximal_term_is_mu_times_the_way_gone():
    net, mu = toys.net(8), 0.3
    params, norm, _ = BASE.init_client(net, jax.random.key(0))
    down = BASE.init_server(net, jax.random.key(1))
    pool, _ = toys.pool_and_rows()
    batch = Batch(pool.x[:6], pool.y[:6], jnp.ones(6))

    def slope(method):
        loss = jax.jit(lambda p: method.loss(net, p, norm, batch, down, None)[0])
        return jax.grad(loss)(params)

    both = slope(make("fedprox", mu=mu)), slope(BASE)
    term = jax.tree.map(jnp.subtract, *both)
    want = jax.tree.map(lambda w, g: mu * (w - g), params, down)
    assert toys.gap(term, want) < 1e-6


# FedNova


def uploads(method, down, after, steps_K, size_K):
    """What clients with these parameters afterwards send."""

    def one(params, steps, size):
        zero = jnp.zeros(())
        client = Client(params, (), (), (), zero, zero, steps)
        data = Data(None, Shard(None, size))
        return method.upload(None, None, client, data, down, None)[0]

    return jax.vmap(one)(after, jnp.asarray(steps_K), jnp.asarray(size_K))


def test_the_amount_of_five_steps_with_momentum():
    """Spec 8.3: c_t is 1, 1.9, 2.71, 3.439, 4.0951, and a(5, 0.9) = 13.1441."""
    a = fednova.amount(5, fednova.Descent(0.01, 0.9))
    np.testing.assert_allclose(a, 13.1441, rtol=1e-6)
    np.testing.assert_allclose(a, (5 - 0.9 * (1 - 0.9**5) / 0.1) / 0.1, rtol=1e-5)


def test_the_amount_is_what_unit_gradients_move_sgd_by():
    """Plain, with momentum, and with the proximal term, which pulls back."""
    for rho, mu in ((0.0, 0.0), (0.7, 0.0), (0.0, 2.0)):
        moved, velocity = 0.0, 0.0
        for _ in range(7):
            velocity = rho * velocity + 1.0 - mu * moved
            moved += 0.05 * velocity
        a = fednova.amount(7, fednova.Descent(0.05, rho), mu)
        np.testing.assert_allclose(0.05 * a, moved, rtol=1e-5)


def test_fednova_with_equal_steps_is_fedavg():
    descent = fednova.Descent(0.05, 0.9)
    nova = run(make("fednova", descent=descent), how=ALIKE)
    assert {int(c.steps) for c in nova.clients.values()} == {3}
    assert toys.gap(nova.server.params, run(BASE, how=ALIKE).server) < 1e-5


def test_fednova_weighs_long_training_less_than_fedavg_does():
    """The mean of changes per step, times the mean of the steps."""
    method = make("fednova")
    state = begun(method)
    after, tau_K, share_K = (
        drawn(state.params),
        np.array([2, 6]),
        np.array([0.25, 0.75]),
    )
    up = uploads(method, state.params, after, tau_K, [5, 15])
    got = method.update(None, state, up, None).params

    def by_hand(w, each):
        delta = [(w - w_i) / tau for w_i, tau in zip(each, tau_K, strict=True)]
        return w - (share_K @ tau_K) * np.tensordot(share_K, np.stack(delta), 1)

    assert toys.gap(jax.tree.map(by_hand, state.params, after), got) < 1e-5
    mean = BASE.update(None, state.params, Sent(after, jnp.asarray([5, 15])), None)
    assert toys.gap(mean, got) > 0.1


def test_server_momentum_goes_on_in_the_last_direction():
    method = make("fednova", server_momentum=0.5)
    state = begun(method)
    up = uploads(method, state.params, drawn(state.params), [2, 6], [5, 15])
    once = method.update(None, state, up, None)
    twice = method.update(None, once, up, None)
    want = jax.tree.map(lambda a: 1.5 * a, once.step)
    assert toys.gap(twice.step, want) < 1e-5
    moved = jax.tree.map(jnp.subtract, once.params, twice.params)
    assert toys.gap(moved, twice.step) < 1e-5
    nobody = jax.tree.map(jnp.zeros_like, up)
    assert toys.gap(method.update(None, twice, nobody, None), twice) == 0


def test_fednova_follows_the_configured_optimiser_or_refuses_it():
    optimizer = SimpleNamespace(name="sgd", learning_rate=0.1, momentum=0.9)
    optimizer.schedule = "constant"
    assert fednova.descent_of(optimizer, "restart", 0.1) == (0.1, 0.9)
    with pytest.raises(UserError, match=r"'adam': set it to sgd"):
        adam = SimpleNamespace(name="adam", momentum=0.0)
        fednova.descent_of(adam, "restart", 0.0)
    with pytest.raises(UserError, match=r"momentum=0.9 .* 'keep': set it to restart"):
        fednova.descent_of(optimizer, "keep", 0.0)
    optimizer.schedule = "cosine"
    assert fednova.descent_of(optimizer, "restart", 0.0) == (0.1, 0.9)
    with pytest.raises(UserError, match=r"mu=0.1 .* 'cosine': set it to constant"):
        fednova.descent_of(optimizer, "restart", 0.1)


# FedUV


def test_feduv_without_terms_is_fedavg():
    plain = run(make("feduv", variance=0.0, uniformity=0.0))
    assert toys.gap(plain.server, run(BASE).server) == 0


def test_the_target_of_the_variance_is_that_of_the_identity():
    """Spec 8.3: 0.31623 for 10 classes; V is 0 where every column reaches it."""
    np.testing.assert_allclose(np.eye(10).std(0, ddof=1), 0.31623, atol=5e-6)
    sure = 1e3 * jnp.eye(10)
    assert feduv.variance_gap(sure, jnp.ones(10)) < 1e-6
    same = feduv.variance_gap(jnp.zeros((10, 10)), jnp.ones(10))
    np.testing.assert_allclose(same, 0.31623, atol=5e-6)


def test_the_golden_variance_term():
    """Golden `loss_b8_k10_d32/feduv_v`, of PyTorch 2.13 on its `logits`."""
    logits, want = (GOLDEN[f"loss_b8_k10_d32.{name}"] for name in ("logits", "feduv_v"))
    got = feduv.variance_gap(jnp.asarray(logits), jnp.ones(8))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_both_terms_are_those_of_a_loop():
    rng = np.random.default_rng(0)
    logits, feat = rng.normal(size=(7, 4)), rng.normal(size=(7, 3))
    feat[5] = feat[2]  # a distance of 0, which the median leaves out
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    v = np.mean(np.maximum(0.5 - p.std(0, ddof=1), 0))
    pairs = [np.sum((a - b) ** 2) for i, a in enumerate(feat) for b in feat[:i]]
    apart = sorted(d for d in pairs if d > 0)
    u = np.mean(np.exp(-np.array(pairs) / apart[(len(apart) - 1) // 2]))
    more = np.concatenate([logits, logits[:2]]), np.concatenate([feat, feat[:2]])
    mask = jnp.asarray([1.0] * 7 + [0.0] * 2)  # repeats change nothing
    np.testing.assert_allclose(feduv.variance_gap(jnp.asarray(more[0]), mask), v, 1e-5)
    np.testing.assert_allclose(feduv.crowding(jnp.asarray(more[1]), mask), u, 1e-5)


@pytest.mark.parametrize("feat", [jnp.zeros((4, 3)), jnp.ones((4, 3))])
def test_features_that_are_all_alike_have_finite_terms_and_gradients(feat):
    for term in (feduv.variance_gap, feduv.crowding):
        for mask in (jnp.ones(4), jnp.asarray([1.0, 0, 0, 0])):
            value, slope = jax.value_and_grad(term)(feat, mask)
            assert np.isfinite(value) and np.all(np.isfinite(slope))


def test_statistics_leave_the_client_only_if_they_are_averaged():
    r = run(make("feduv", variance=0.0, uniformity=0.0, statistics=feduv.averaged))
    assert r.report.up.norm["net"]["mean"].shape == (6, 8)
    want = jax.tree.map(by_size, *[r.clients[i].norm for i in range(6)])
    assert toys.gap(want, r.server.norm) < 1e-6
    plain = run(make("feduv", variance=0.0, uniformity=0.0))
    assert plain.report.up._fields == ("params", "size")
    assert toys.gap(r.server.params, plain.server) < 1e-6  # training does not see them


@pytest.mark.parametrize("statistics", [feduv.local, feduv.averaged])
def test_averaged_statistics_are_where_clients_begin(statistics):
    method, net = make("feduv", statistics=statistics), toys.net(8)
    params, norm, _ = method.init_client(net, jax.random.key(0))
    start = begun(make("feduv", statistics=feduv.averaged))
    other = start._replace(norm=drawn(start.norm, lead=()))
    down = other if statistics is feduv.averaged else start.params
    client = Client(params, norm, (), (), COUNTS[0][0], jnp.int32(0), jnp.int32(0))
    task = clients.Task(method, net, toys.HOW, jax.random.key(1), down)
    pool, rows = toys.pool_and_rows()
    shard = jax.tree.map(lambda a: a[0], toys.shard(rows, [0]))
    session = clients.begin(task, client, Data(pool, shard))
    want = other.norm if statistics is feduv.averaged else norm
    assert toys.gap(session.norm, want) == 0


# FedNH


def test_the_first_head_is_orthogonal_and_in_the_plane_a_circle():
    head = fednh.spread(jax.random.key(0), Spec(5, 8))
    np.testing.assert_allclose(head @ head.T, np.eye(5), atol=1e-5)
    plane = fednh.spread(jax.random.key(0), Spec(6, 2))
    angles = np.diff(np.degrees(np.unwrap(np.arctan2(plane[:, 1], plane[:, 0]))))
    np.testing.assert_allclose(angles, 60, rtol=1e-4)
    many = fednh.spread(jax.random.key(0), Spec(9, 4))
    np.testing.assert_allclose(np.linalg.norm(many, axis=1), 1, rtol=1e-5)


def test_the_head_moves_by_what_rho_leaves_and_clients_do_not_train_it():
    method = make("fednh", rho=0.9)
    start, r = begun(method), run(method, 1)
    up = r.report.up.protos
    total = np.einsum("kcd,kc->cd", up.mean, up.count)
    unit = total / np.linalg.norm(total, axis=1, keepdims=True)
    moved = 0.9 * start.heads + 0.1 * unit
    want = moved / np.linalg.norm(moved, axis=1, keepdims=True)
    np.testing.assert_allclose(r.server.heads, want, atol=1e-5)
    assert np.array_equal(up.count, COUNTS[0])
    assert toys.gap(r.clients[0].memory, start.heads) == 0
    assert r.params[0]["scale"] != r.params[1]["scale"] != 1.0  # trained


def test_a_class_that_nobody_saw_keeps_its_row_and_networks_move_alike():
    """Bodies by the uniform mean of who is there, times the server's rate."""
    method = make("fednh", server_rate=0.5)
    state = begun(method)
    count_KC = np.float32([[4, 0, 1, 0, 0], [9, 0, 0, 0, 3], [0, 0, 0, 0, 0]])
    protos = Protos(drawn(state.heads, lead=(3,)), count_KC, disclosed=True)
    body = drawn(state.body, lead=(3,))
    up = fednh.Sent(body, jnp.asarray([2.0, 4.0, 0.0]), protos)
    got = method.update(None, state, up, None)
    stays_C = np.array([False, True, False, True, False])
    gap_C = np.abs(got.heads - state.heads).max(1)
    assert np.array_equal(gap_C == 0, stays_C)
    assert np.isclose(got.scale, 0.5 * state.scale + 0.5 * 3.0)
    want = jax.tree.map(lambda w, b: (w + b[:2].mean(0)) / 2, state.body, body)
    assert toys.gap(got.body, want) < 1e-6


def test_a_feature_of_zeros_has_a_finite_gradient():
    slope = jax.grad(lambda f: jnp.sum(fednh.direction(f)))(jnp.zeros((2, 3)))
    assert np.all(np.isfinite(slope))


# VHL


def plain_net(spec):
    """A network without batch normalisation."""
    net = toys.net(8, spec)

    def apply(params, norm, x, train, key=None):
        feat = jax.nn.relu(x @ params["body"]["in"]) @ params["body"]["out"]
        out = net.apply(params, norm, x, False)
        return out._replace(feat=feat, logits=net.head(params["head"], feat))

    return net._replace(apply=apply)


def test_vhl_without_weights_is_fedavg():
    """Up to the softmax, which goes over the virtual classes too."""
    net = plain_net(SPEC)
    method = vhl.vhl(SPEC, virtual=0.0, align=0.0, contrast=0.0)
    params, norm, _ = method.init_client(net, jax.random.key(0))
    never = {**params["virtual"], "bias": jnp.full(SPEC.num_classes, -1e9)}
    pool, _ = toys.pool_and_rows()
    batch = Batch(pool.x[:6], pool.y[:6], jnp.ones(6), jax.random.key(1))

    def value_and_slope(m, extra):
        def f(p):
            return m.loss(net, {"net": p, **extra}, norm, batch, None, None)[0]

        return jax.jit(jax.value_and_grad(f))(params["net"])

    one = value_and_slope(method, {"virtual": never})
    assert toys.gap(one, value_and_slope(BASE, {})) < 1e-6


def test_the_virtual_set_is_one_for_all_and_a_class_has_its_mean():
    noise = vhl.Virtual(seed=3, classes=4, images=50)
    shape = (200, 16, 16, 3)
    x, y = noise.draw(jax.random.key(0), shape)
    assert x.shape == shape and set(np.asarray(y)) == {0, 1, 2, 3}
    again = vhl.Virtual(3, 4, 50).image(shape[1:], 77)
    assert toys.gap(again, noise.image(shape[1:], 77)) == 0
    means = np.stack([x[y == k].mean(0) for k in range(4)])
    within = np.stack([x[y == k].std(0).mean() for k in range(4)])
    assert np.all(within < 0.5) and means.std(0).mean() > 0.5
    other = vhl.Virtual(4, 4, 50).image(shape[1:], 77)
    assert toys.gap(again, other) > 0.1


def test_the_contrastive_loss_is_that_of_a_loop():
    rng = np.random.default_rng(1)
    feat, label = rng.normal(size=(6, 3)), np.array([0, 1, 0, 1, 0, 2])
    unit = feat / np.linalg.norm(feat, axis=1, keepdims=True)
    each = []
    for i in range(6):
        others = [j for j in range(6) if j != i]
        like = {j: unit[i] @ unit[j] / 0.07 for j in others}
        total = np.log(sum(np.exp(v) for v in like.values()))
        mates = [j for j in others if label[j] == label[i]]
        each.append(-np.mean([like[j] - total for j in mates]) if mates else 0.0)
    more, labels = np.concatenate([feat, feat[:1]]), np.append(label, 0)
    mask = jnp.asarray([1.0] * 6 + [0.0])
    got = vhl.sup_con(jnp.asarray(more), jnp.asarray(labels), mask)
    np.testing.assert_allclose(got, np.mean(each), rtol=1e-5)


def test_alignment_moves_real_features_and_not_virtual_ones():
    """The weight of the first contrastive term alone, on a batch without labels."""
    net, pool = plain_net(SPEC), toys.pool_and_rows()[0]
    params, norm, _ = vhl.vhl(SPEC).init_client(net, jax.random.key(0))
    batch = Batch(pool.x[:6], pool.y[:6], jnp.zeros(6), jax.random.key(1))
    method = vhl.vhl(SPEC, virtual=0.0, align=1.0, contrast=0.0)
    slope = jax.grad(lambda p: method.loss(net, p, norm, batch, None, None)[0])
    slope = jax.jit(slope)
    assert toys.gap(slope(params), jax.tree.map(jnp.zeros_like, params)) == 0


@pytest.mark.parametrize(
    ("shape", "dtype"), [((1, 2), jnp.float32), ((1, 200), jnp.int32)]
)
def test_vhl_refuses_what_is_no_image(shape, dtype):
    x = jax.ShapeDtypeStruct(shape, dtype)
    with pytest.raises(UserError, match=rf"\({shape[1]},\).*choose images"):
        federation.check_cohorts(vhl.vhl(SPEC), toys.cohorts(*toys.HOM), SPEC, x)


@pytest.mark.parametrize("wrong", [{"images": 0}, {"virtual_classes": -1}])
def test_a_virtual_set_that_cannot_be_is_named(wrong):
    with pytest.raises(UserError, match=rf"method\.{next(iter(wrong))} is"):
        vhl.vhl(SPEC, **wrong)


# FAST


def test_fast_with_only_snapshots_is_fedavg_with_equal_weights_and_uniform_sampling():
    equal = dataclasses.replace(
        BASE,
        upload=lambda net, before, after, data, down, sums: (
            Sent(after.params, jnp.int32(1)),
            after.memory,
        ),
    )
    third = participation.uniform(1 / 3)
    one = run(make("fast", q=1.0, fraction=1 / 3), 4)
    assert toys.gap(one.server.params, run(equal, 4, law=third).server) < 1e-6


def test_fast_without_snapshots_has_the_participants_of_the_law():
    method = make("fast")
    server = SimpleNamespace(q=jnp.float32(0.0))
    law = participation.beta(0.3)
    for seed in range(5):
        key = jax.random.key(seed)
        pair = law(key, 20, 0), method.invite(law, server)(key, 20, 0)
        assert np.array_equal(pair[0].trains, pair[1].trains)


def test_snapshots_come_as_often_as_their_probability():
    def nobody(key, clients, r):
        return participation.Turnout(*[jnp.zeros(clients, bool)] * 2)

    law = make("fast").invite(nobody, SimpleNamespace(q=jnp.float32(0.3)))
    keys = jax.random.split(jax.random.key(0), 400)
    trains = jax.vmap(lambda key: law(key, 20, 0).trains)(keys)
    assert set(np.asarray(trains.sum(1))) == {0, 2}
    assert 0.22 < np.mean(np.any(trains, 1)) < 0.38


def test_adaptive_snapshots_follow_the_training_accuracy():
    """Spec 2.15: q <- clip(q + gamma (previous - accuracy), 0, 1), gamma 0.7."""
    seen = jnp.asarray([6.0, 0.0]), jnp.asarray([10.0, 10.0])  # 30 %
    q, accuracy = fast.follow(jnp.float32(0.2), jnp.float32(0.8), seen, 0.7)
    np.testing.assert_allclose((q, accuracy), (0.2 + 0.7 * 0.5, 0.3), rtol=1e-6)
    q, _ = fast.follow(jnp.float32(0.1), jnp.float32(0.0), seen, 0.7)
    assert q == 0
    nobody = jnp.zeros(2), jnp.zeros(2)
    q, accuracy = fast.follow(jnp.float32(0.1), jnp.float32(0.4), nobody, 0.7)
    np.testing.assert_allclose((q, accuracy), (0.1, 0.4), rtol=1e-6)


def test_the_accuracy_that_adapts_is_that_of_the_uploads():
    r = run(make("fast", q=0.0, pace=fast.ADAPTIVE), 1)
    hits, examples = r.report.up.seen
    np.testing.assert_allclose(r.server.accuracy, hits.sum() / examples.sum())
    assert np.all(hits <= examples) and examples.sum() > 60  # two epochs of batches
    assert run(make("fast", q=1.0, fraction=1 / 3), 4).report.up.seen == ()


# Configurations


@pytest.mark.parametrize("name", WHOLE)
def test_every_data_set_has_one_network_and_the_protocol_is_a_variant(name):
    for dataset in DATASETS:
        group = config.load(f"configs/{name}.py:{dataset}").model.group
        assert len(models.members(group)) == 1
    c = config.load(f"configs/{name}.py:cifar10,refprotofl")
    assert (c.data.clients, c.data.alpha, c.data.pool) == (10, 0.5, False)
    assert (c.model.group, c.local.batch_size, c.rounds) == ("resnet18", 64, 50)
    assert (c.optimizer.momentum, c.optimizer.weight_decay) == (0.9, 1e-4)
    other = config.load(f"configs/{name}.py:cifar10,refprotofl100")
    lines = config.differences(config.flat(c), config.flat(other))
    assert lines == ["data.alpha: 0.5 there, 100.0 here"]

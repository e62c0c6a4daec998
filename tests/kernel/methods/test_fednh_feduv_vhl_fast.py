"""FedNH, FedUV, VHL and FAST: identities, formulas, golden numbers, refusals."""

import dataclasses
import itertools
from functools import cache, partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.averaging import BASE, COUNTS, SPEC, begun, drawn, make, run
from support.exchange import client, golden
from support.refusal import refused

from jaxproto.core.types import Batch, NetOutput, Protos, Spec
from jaxproto.methods import fast, fednh, feduv, vhl
from jaxproto.methods.fedavg import FedAvgUpload
from jaxproto.round import participation
from jaxproto.round.cohort import check_cohorts

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn


def test_feduv_is_fedavg_and_a_variance_term_that_is_pytorchs():
    """Golden `feduv_v`."""
    plain = run(make("feduv", variance=0.0, uniformity=0.0))
    assert toys.gap(plain.server, run(BASE).server) == 0
    logits, want = golden("logits", "feduv_v")
    got = feduv.variance_gap(logits, jnp.ones(8))
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
    mask = jnp.asarray([1.0] * 7 + [0.0] * 2)  # repeats change nothing
    gap, alike = feduv.variance_gap, feduv.uniformity_loss
    for term, rows, want in ((gap, logits, v), (alike, feat, u)):
        given = jnp.asarray(np.concatenate([rows, rows[:2]]))
        np.testing.assert_allclose(term(given, mask), want, 1e-5)


def test_features_that_are_all_alike_or_zero_have_finite_terms_and_gradients():
    terms, alike = (feduv.variance_gap, feduv.uniformity_loss), (jnp.zeros, jnp.ones)
    masks = jnp.ones(4), jnp.asarray([1.0, 0, 0, 0])
    for term, make_feat, mask in itertools.product(terms, alike, masks):
        found = jax.value_and_grad(term)(make_feat((4, 3)), mask)
        assert all(np.all(np.isfinite(leaf)) for leaf in found)
    grads = jax.grad(lambda f: jnp.sum(fednh.normalise_rows(f)))(jnp.zeros((2, 3)))
    assert np.all(np.isfinite(grads))


def test_the_first_head_is_orthogonal_and_in_the_plane_a_circle():
    def prototypes(*spec):
        return fednh.uniform_prototypes(jax.random.key(0), Spec(*spec))

    head, plane = prototypes(5, 8), prototypes(6, 2)
    np.testing.assert_allclose(head @ head.T, np.eye(5), atol=1e-5)
    angles = np.diff(np.degrees(np.unwrap(np.arctan2(plane[:, 1], plane[:, 0]))))
    np.testing.assert_allclose(angles, 60, rtol=1e-4)
    lengths = np.linalg.norm(prototypes(9, 4), axis=1)
    np.testing.assert_allclose(lengths, 1, rtol=1e-5)


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
    params, norm, _ = method.init_client(NET, KEY)
    x, scaled = jnp.ones((2, toys.INPUT)), {**params, "scale": 3 * params["scale"]}
    clients = (client(p, norm, COUNTS[0][0]) for p in (params, scaled))
    clients = (c.replace(memory=start.heads) for c in clients)
    one, three = (method.predict(NET, c, x, start)["head"] for c in clients)
    np.testing.assert_allclose(three, 3 * one, rtol=1e-5)  # z = s cos


def test_a_class_that_nobody_saw_keeps_its_row_and_networks_move_alike():
    """Bodies by the uniform mean of who is there, times the server's rate."""
    method = make("fednh", server_rate=0.5)
    state = begun(method)
    count_KC = np.float32([[4, 0, 1, 0, 0], [9, 0, 0, 0, 3], [0, 0, 0, 0, 0]])
    protos = Protos(drawn(state.heads, lead=(3,)), count_KC, disclosed=True)
    body = drawn(state.body, lead=(3,))
    up = fednh.FedNHUpload(body, jnp.asarray([2.0, 4.0, 0.0]), protos)
    got = method.update(None, state, up, None)
    stays_C = np.array([False, True, False, True, False])
    gap_C = np.abs(got.heads - state.heads).max(1)
    assert np.array_equal(gap_C == 0, stays_C)
    assert np.isclose(got.scale, 0.5 * state.scale + 0.5 * 3.0)
    want = jax.tree.map(lambda w, b: (w + b[:2].mean(0)) / 2, state.body, body)
    assert toys.gap(got.body, want) < 1e-6


def plain_net():
    net = toys.net(8)

    def apply(params, norm, x, train, key=None):
        feat = jax.nn.relu(x @ params["body"]["in"]) @ params["body"]["out"]
        return NetOutput(feat, net.head(params["head"], feat), norm)

    return net._replace(apply=apply)


NET, KEY = plain_net(), jax.random.key(0)


@cache
def started():
    """Parameters and statistics of VHL's client, and six examples."""
    pool, _ = toys.pool_and_rows()
    batch = Batch(pool.x[:6], pool.y[:6], jnp.ones(6), jax.random.key(1))
    return *vhl.vhl(SPEC).init_client(NET, KEY)[:2], batch


def loss(method, params=None, mask=None):
    own, norm, batch = started()
    batch = batch if mask is None else batch._replace(mask=mask)
    return method.loss(NET, params or own, norm, batch, None, None)[0]


def test_vhl_without_weights_is_fedavg():
    """Up to the softmax, which goes over the virtual classes too."""
    method = vhl.vhl(SPEC, virtual=0.0, align=0.0, contrast=0.0)
    params, *_ = started()
    never = {**params["virtual"], "bias": jnp.full(SPEC.num_classes, -1e9)}

    def value_and_slope(m, extra):
        given = jax.value_and_grad(lambda p: loss(m, {"net": p, **extra}))
        return jax.jit(given)(params["net"])

    one = value_and_slope(method, {"virtual": never})
    assert toys.gap(one, value_and_slope(BASE, {})) < 1e-6


def test_the_virtual_set_is_one_for_all_and_stored_images_are_cut_and_normalised():
    noise, shape = vhl.VirtualData(seed=3, classes=4, images=50), (16, 16, 3)
    x, y = noise.draw(KEY, (200, *shape))
    assert x.shape == (200, *shape) and set(np.asarray(y)) == {0, 1, 2, 3}
    again, other = (vhl.VirtualData(s, 4, 50).image(shape, 77) for s in (3, 4))
    assert toys.gap(again, noise.image(shape, 77)) == 0 and toys.gap(again, other) > 0.1
    means = np.stack([x[y == k].mean(0) for k in range(4)])
    within = np.stack([x[y == k].std(0).mean() for k in range(4)])
    assert np.all(within < 0.5) and means.std(0).mean() > 0.5
    both = (vhl.VirtualData(3, 10, 50, kind).image for kind in (False, True))
    numbers = jnp.arange(0, 500, 50)
    drawn, stored = (jax.vmap(partial(of, (32, 32, 3)))(numbers) for of in both)
    want = (np.minimum(np.maximum(drawn, 0), 1) - 0.5) / 0.25
    np.testing.assert_allclose(stored, want, atol=1e-6)
    assert set(np.round([stored.min(), stored.max()], 5)) == {-2, 2}
    assert abs(loss(vhl.vhl(SPEC, stored=True)) - loss(vhl.vhl(SPEC))) > 1e-3


def test_the_contrastive_loss_is_that_of_a_loop_and_moves_real_features_alone():
    """The weight of the first contrastive term alone, on a batch without labels."""
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
    method = vhl.vhl(SPEC, virtual=0.0, align=1.0, contrast=0.0)
    grads = jax.jit(jax.grad(lambda p: loss(method, p, jnp.zeros(6))))(started()[0])
    assert not any(np.any(leaf) for leaf in jax.tree.leaves(grads))


def test_vhl_refuses_what_is_no_image_or_no_virtual_set_and_fast_no_share():
    for shape, dtype in (((1, 2), jnp.float32), ((1, 200), jnp.int32)):
        x = jax.ShapeDtypeStruct(shape, dtype)
        with refused(f"({shape[1]},)"):
            check_cohorts(vhl.vhl(SPEC), toys.cohorts(*toys.HOM), SPEC, x)
    with refused("method.images is "):
        vhl.vhl(SPEC, images=0)
    with refused("method.q is "):
        fast.fast(SPEC, q=5.0)


def test_fast_with_only_snapshots_is_fedavg_with_equal_weights_and_uniform_sampling():
    def upload(net, before, after, data, down, sums):
        return FedAvgUpload(after.params, jnp.int32(1)), after.memory

    equal = dataclasses.replace(BASE, upload=upload)
    third = participation.uniform(1 / 3)
    one = run(make("fast", q=1.0, fraction=1 / 3), 4)
    assert toys.gap(one.server.params, run(equal, 4, sampler=third).server) < 1e-6


def test_snapshots_come_as_often_as_their_probability():
    """Otherwise the participants are those of the law."""
    method, sampler = make("fast"), participation.beta(0.3)
    plain = method.adjust_sampler(sampler, SimpleNamespace(q=jnp.float32(0.0)))
    for key in jax.random.split(KEY, 5):
        assert np.array_equal(sampler(key, 20, 0).trains, plain(key, 20, 0).trains)
    nobody = participation.Participation(*[jnp.zeros(20, bool)] * 2)
    state = SimpleNamespace(q=jnp.float32(0.3))
    sampler = method.adjust_sampler(lambda key, clients, r: nobody, state)
    keys = jax.random.split(KEY, 400)
    trains = jax.vmap(lambda key: sampler(key, 20, 0).trains)(keys)
    assert set(np.asarray(trains.sum(1))) == {0, 2}
    assert 0.22 < np.mean(np.any(trains, 1)) < 0.38


def test_adaptive_snapshots_follow_the_training_accuracy_of_the_uploads():
    """Released code: q <- clip(q + gamma (previous - accuracy), 0, 1), gamma 0.7."""
    for q, before, hits, examples, want in (
        (0.2, 0.8, 6.0, 20.0, (0.2 + 0.7 * 0.5, 0.3)),  # 30 %
        (0.1, 0.0, 6.0, 20.0, (0.0, 0.3)),
        (0.1, 0.4, 0.0, 0.0, (0.1, 0.4)),  # nobody
    ):
        seen = jnp.float32(hits), jnp.float32(examples)
        got = fast.adapt_probability(jnp.float32(q), jnp.float32(before), seen, 0.7)
        np.testing.assert_allclose(got, want, rtol=1e-6)
    r = run(make("fast", q=0.0, pace=fast.ADAPTIVE), 1)
    hits, examples = r.report.up.seen
    np.testing.assert_allclose(r.server.accuracy, hits.sum() / examples.sum())
    assert np.all(hits <= examples) and examples.sum() > 60  # two epochs of batches
    assert run(make("fast", q=1.0, fraction=1 / 3), 4).report.up.seen == ()

"""FedMRL, FedL2G, FedSA, FedMD, FedDF, FedGen: what guides clients besides labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.exchange import COUNT, KEY, MEAN, X, Y, client, on_batch

from jaxproto import transforms
from jaxproto.methods import fedgen, fedl2g, fedsa
from jaxproto.methods.fedavg import FedAvgUpload, fedavg
from jaxproto.methods.feddf import feddf
from jaxproto.methods.fedmd import fedmd
from jaxproto.methods.fedmrl import fedmrl
from jaxproto.methods.fedtgp import ServerTraining
from jaxproto.methods.lg_fedavg import lg_fedavg
from jaxproto.types import Batch, Data, Examples, Protos, Shard, Spec

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn
NET, AUX = toys.net(8), toys.net(8, Spec(5, 4))
PUBLIC = np.random.default_rng(2).normal(size=(4, toys.INPUT)).astype(np.float32)


def ce(logits, y):
    return -jnp.mean(jax.nn.log_softmax(logits)[np.arange(len(y)), y])


def batch(row=None, step=None):
    return Batch(jnp.asarray(X), jnp.asarray(Y), jnp.ones(6), KEY, row, step)


def test_fedmrl_classifies_fused_features_and_their_first_entries():
    method = fedmrl(toys.SPEC, aux=AUX, aux_dim=4)
    (params, norm, _), value = method.init_client(NET, KEY), on_batch(method)[0]
    nets = {"aux": AUX, "net": NET}.items()
    feat = [net.apply(params[name], norm[name], X, True).feat for name, net in nets]
    layer = params["projector"]
    fused = np.concatenate(feat, 1) @ layer["kernel"] + layer["bias"]
    want = ce(NET.head(params["net"]["head"], fused), Y)
    want += ce(AUX.head(params["aux"]["head"], fused[:, :4]), Y)
    np.testing.assert_allclose(value, want, rtol=1e-5)


def test_fedl2g_sends_the_gradient_of_the_quiz_after_a_pseudo_step():
    method = fedl2g.fedl2g(toys.SPEC, quiz=2, study=4, inner_rate=0.1)
    params, norm, _ = method.init_client(NET, KEY)
    data = Data(Examples(jnp.asarray(X), jnp.asarray(Y)), Shard(jnp.arange(6), 6))
    me, vectors = client(params, norm, COUNT[0]), MEAN[0]
    state = fedl2g.FedL2GState(jnp.asarray(vectors), jnp.int32(0))
    up, _ = method.upload(NET, me, me, data, state, ())
    assert up.sent.tolist() == [True, False, True, False, True]  # that it holds
    studied = jnp.asarray([1, 2])  # of the first four, without 0 and 3

    def quiz(vectors):
        def loss(params):
            out = NET.apply(params, norm["net"], X[jnp.arange(4)], True)
            y = Y[jnp.arange(4)]
            log = jax.nn.log_softmax(out.logits)[jnp.arange(4), y]
            away = jnp.mean((out.feat - vectors[y]) ** 2, 1)
            return jnp.mean((away - log)[studied])

        grads = jax.grad(loss)(params["net"])
        moved = jax.tree.map(lambda w, g: w - 0.1 * g, params["net"], grads)
        logits = NET.apply(moved, norm["net"], X[np.array([0, 3])], True).logits
        return ce(logits, Y[np.array([0, 3])])

    np.testing.assert_allclose(up.value, jax.grad(quiz)(vectors), rtol=1e-4, atol=1e-6)
    assert not np.any(up.value[0]) and np.any(up.value[1])


def test_fedl2g_trains_on_study_examples_after_the_warm_up():
    method = fedl2g.fedl2g(toys.SPEC, quiz=2, warm_up=1)
    params, norm, _ = method.init_client(NET, KEY)
    me = client(params, norm, jnp.asarray([2.0, 1, 1, 1, 1]))  # 6: the quiz is 0 and 3

    def loss(r, row):
        state = fedl2g.FedL2GState(jnp.asarray(MEAN[0]), jnp.int32(r))
        return method.loss(NET, params, norm, batch(jnp.asarray(row)), state, me)

    value, aux = loss(0, range(6))
    assert value == 0 and toys.gap(aux.norm, norm) == 0
    out = NET.apply(params["net"], norm["net"], X, True)
    own = [1, 2, 4, 5]
    want = ce(out.logits[np.array(own)], Y[own])
    want += np.mean((np.asarray(out.feat) - MEAN[0][Y])[own] ** 2)
    np.testing.assert_allclose(loss(1, range(6))[0], want, rtol=1e-5)


def test_fedsas_gap_is_the_mean_distance_to_the_next_prototype_that_is_there():
    points = jnp.asarray([[0.0, 0], [3, 4], [0, 1], [9, 9]])
    here = Protos(points, jnp.asarray([1.0, 1, 1, 0]))
    want = (1 + np.hypot(3, 3) + 1) / 3
    np.testing.assert_allclose(fedsa.gap(here), want, rtol=1e-6)
    assert fedsa.gap(here.replace(count=jnp.asarray([1.0, 0, 0, 0]))) == 0


def test_fedsas_loss_has_its_four_terms_and_anchors_move_where_prototypes_are():
    rates = {"contrastive": 0.3, "calibration": 0.2, "keep": 0.9}
    method = toys.method(fedsa.fedsa, lam=0.5, **rates)
    params, norm, _ = method.init_client(NET, KEY)
    anchors = Protos(jnp.asarray(MEAN[0]), jnp.ones(5))
    own = Protos(jnp.asarray(5 * MEAN[1]), jnp.asarray(COUNT[1]))
    me = client(params, norm, COUNT[1]).replace(memory=own)
    value, _ = method.loss(NET, params, norm, batch(), anchors, me)
    out = NET.apply(params["net"], norm["net"], X, True)
    feat = np.asarray(out.feat)
    away = np.linalg.norm(feat[:, None] - MEAN[0], axis=2)
    away[np.arange(6), Y] += max(fedsa.gap(own), fedsa.gap(anchors))
    want = ce(out.logits, Y) + 0.5 * np.mean((feat - MEAN[0][Y]) ** 2)
    want += 0.3 * ce(-away, Y)
    want += 0.2 * ce(NET.head(params["net"]["head"], MEAN[0]), np.arange(5))
    np.testing.assert_allclose(value, want, rtol=1e-5)
    up = Protos(jnp.asarray(MEAN), jnp.asarray(np.sign(COUNT)))
    moved = method.update(None, anchors, up, KEY).mean
    c = 0.9 * MEAN[0] + 0.1 * MEAN[:2].mean(0)  # class 0: clients 0 and 1
    np.testing.assert_allclose(moved[0], c[0], rtol=1e-4)
    assert toys.gap(moved[3], MEAN[0][3]) == 0  # nobody has class 3


def test_fedmd_digests_public_scores_and_then_revisits_the_own_examples():
    method, (params, norm) = fedmd(toys.SPEC, public=PUBLIC), NET.init(KEY)
    params, norm = {"net": params}, {"net": norm}
    me = client(params, norm, COUNT[0]).replace(steps=jnp.int32(4))
    consensus = jax.random.normal(KEY, (4, 5))

    def loss(step):
        return method.loss(NET, params, norm, batch(step=step), consensus, me)[0]

    row = jax.random.randint(jax.random.fold_in(KEY, 1), (6,), 0, 4)
    both = (NET.apply(params["net"], norm["net"], x, True) for x in (X, PUBLIC[row]))
    own, known = (out.logits for out in both)
    digest = np.abs(known - consensus[row]).mean()
    got = [loss(step) for step in range(4)]
    want = [digest, digest, ce(own, Y), ce(own, Y)]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_fedmds_consensus_is_the_mean_of_who_sends_scores_or_stays():
    method = fedmd(toys.SPEC, public=PUBLIC)
    scores = np.random.default_rng(3).normal(size=(3, 4, 5))
    scores[1] = 0  # absent
    start = jnp.ones((4, 5))
    got = method.pre_aggregate(start, jnp.asarray(scores), KEY)
    np.testing.assert_allclose(got, scores[[0, 2]].mean(0), rtol=1e-5)
    assert toys.gap(method.pre_aggregate(start, jnp.zeros((3, 4, 5)), KEY), start) == 0


def test_feddf_takes_adams_step_from_the_mean_towards_the_mean_scores():
    """Adam's first step is the rate against the sign of the gradient."""
    one = ServerTraining(server_epochs=1, server_rate=0.01, server_batch=3)
    method = feddf(toys.SPEC, training=one, public=PUBLIC)
    keys = jax.random.split(KEY, 3)
    each = jax.vmap(lambda key: {"net": NET.init(key)[0]})(keys)
    up, norm = FedAvgUpload(each, jnp.asarray([4, 0, 2])), NET.init(KEY)[1]
    start = jax.tree.map(lambda a: a[0], each)
    mean = fedavg(toys.SPEC).update(NET, start, up, KEY)
    row = jax.random.randint(jax.random.split(KEY, 1)[0], (3,), 0, 4)

    def logits(params):
        return NET.apply(params["net"], norm, PUBLIC[row], True).logits

    first, third = (logits(jax.tree.map(lambda a, k=k: a[k], each)) for k in (0, 2))
    teacher = jax.nn.softmax((first + third) / 2)

    def kl(params):
        return -jnp.mean(jnp.sum(teacher * jax.nn.log_softmax(logits(params)), 1))

    got = method.update(NET, start, up, KEY)
    grads = jax.grad(kl)(mean)
    for new, old, g in zip(*map(jax.tree.leaves, (got, mean, grads)), strict=True):
        clear, step = np.abs(g) > 1e-4, -0.01 * np.sign(g)
        np.testing.assert_allclose((new - old)[clear], step[clear], rtol=1e-2)
    lost = FedAvgUpload(jax.tree.map(jnp.zeros_like, each), jnp.zeros(3, jnp.int32))
    assert toys.gap(method.update(NET, start, lost, KEY), start) == 0


def make(**fields):
    return toys.method(fedgen.fedgen, noise=4, hidden=8, **fields)


def test_fedgen_without_weight_is_lg_fedavg():
    lg, taught = lg_fedavg(toys.SPEC), make(weight=1.0)
    plain, one = toys.run(lg), toys.run(make(weight=0.0))
    assert toys.gap(plain.params, one.params) < 1e-6
    assert toys.gap(plain.server, one.server.sent.head) < 1e-6
    assert toys.gap(plain.server, toys.run(taught).server.sent.head) > 1e-3
    first, second = (toys.run(m, rounds=1) for m in (lg, taught))
    assert toys.gap(first.params, second.params) < 1e-6  # no labels are known yet


def test_the_loss_adds_that_of_generated_features_once_labels_are_known():
    method, key = make(weight=2.0), jax.random.key(9)
    down = method.broadcast(method.init_server(NET, KEY))
    known = down._replace(counts=jnp.array([0, 6, 0, 6, 0], jnp.int32))
    plain, got = (on_batch(method, d, key=key)[0] for d in (down, known))
    label_key, noise_key = jax.random.split(jax.random.fold_in(key, 1))
    y = fedgen.draw_labels(jnp.array([0, 6, 0, 6, 0]), 6, label_key)
    assert {*y.tolist()} == {1, 3}
    feat = fedgen.generate(down.generator, y, 5, noise_key)
    head = method.init_client(NET, KEY)[0]["net"]["head"]
    want = plain + 2 * ce(NET.head(head, feat), y)
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_the_generator_learns_what_the_heads_of_all_clients_call_a_class():
    method = make(server_epochs=300, server_rate=0.02)
    server = method.init_server(NET, KEY)
    keys = jax.random.split(jax.random.key(4), 3)
    heads = jax.vmap(lambda key: NET.init(key)[0]["head"])(keys)
    count = jnp.array([[3, 1, 0, 2, 1], [0, 0, 0, 0, 0], [1, 4, 0, 2, 0]], jnp.int32)
    heads = jax.tree.map(lambda a: a.at[1].set(0.0), heads)  # a lost upload
    up = fedgen.FedGenUpload(heads, count)
    update = jax.jit(method.update, static_argnums=0)
    after = update(NET, server, up, KEY)
    y = jnp.array([0, 1, 3, 4] * 8)
    logits = NET.head(after.sent.head, fedgen.generate(after.sent.generator, y, 5, KEY))
    assert np.mean(np.argmax(logits, 1) == y) > 0.9
    want = jax.tree.map(lambda a: (a[0] * 7 + a[2] * 7) / 14, heads)
    assert toys.gap(after.sent.head, want) < 1e-5
    assert after.sent.counts.tolist() == [4, 5, 0, 4, 1]
    assert 0 < transforms.diagnostics_of(after)["server_loss"] < 0.5
    rest = update(NET, after, jax.tree.map(jnp.zeros_like, up), KEY)
    assert toys.gap(rest.sent, after.sent) == 0 and toys.gap(rest.opt, after.opt) == 0

"""FedL2G, FedSA, FedMD, FedDF, FedGH, FedGen: what guides clients besides labels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.averaging import drawn
from support.exchange import COUNT, KEY, MEAN, X, Y, batch, client, on_batch

from jaxproto.core.types import Data, Examples, Protos, Shard
from jaxproto.methods import fedgen, fedsa
from jaxproto.methods.fedavg import FedAvgUpload, fedavg
from jaxproto.methods.feddf import feddf
from jaxproto.methods.fedgh import fedgh
from jaxproto.methods.fedl2g import FedL2GState, fedl2g
from jaxproto.methods.fedmd import fedmd
from jaxproto.methods.fedtgp import ServerTraining
from jaxproto.methods.lg_fedavg import lg_fedavg
from jaxproto.prototypes import transforms
from jaxproto.storage import checkpoint

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn
NET = toys.net(8)
PUBLIC = np.random.default_rng(2).normal(size=(4, toys.INPUT)).astype(np.float32)


def ce(logits, y):
    return -jnp.mean(jax.nn.log_softmax(logits)[np.arange(len(y)), y])


def test_lg_fedavg_predicts_by_the_own_and_by_the_received_head():
    method = lg_fedavg(toys.SPEC)
    params, norm, _ = method.init_client(NET, KEY)
    head = drawn(params["net"]["head"], 1, ())
    scores = method.predict(NET, client(params, norm, ()), jnp.asarray(X), head)
    feat = NET.apply(params["net"], norm["net"], X, False).feat
    assert toys.gap(scores["received"], feat @ head["kernel"] + head["bias"]) < 1e-5
    assert toys.gap(scores["head"], scores["received"]) > 0.1


def test_fedgh_trains_the_header_on_prototypes():
    """One batch of all (c_ij, j) that are there is one step of SGD on their mean."""
    method, here = toys.method(fedgh, server_rate=0.1, server_batch=100), COUNT > 0
    server = method.init_server(NET, KEY)
    header = method.broadcast(server)

    def loss(header):
        return ce(NET.head(header, MEAN[here]), np.argwhere(here)[:, 1])

    grads = jax.grad(loss)(header)
    want = jax.tree.map(lambda a, g: a - 0.1 * g, header, grads)
    up = Protos(jnp.asarray(MEAN * here[..., None]), jnp.float32(here))
    after = method.update(NET, server, up, KEY)
    assert toys.gap(method.broadcast(after), want) < 1e-6


def test_a_checkpoint_of_fedgh_from_before_its_loss_was_recorded_is_read(tmp_path):
    method = fedgh(toys.SPEC)
    server = method.init_server(NET, KEY)
    checkpoint.save(tmp_path, 3, {"server": method.broadcast(server)})
    read = checkpoint.restore_latest(tmp_path, {"server": server}).state["server"]
    assert toys.gap(method.broadcast(read), method.broadcast(server)) == 0
    assert np.isnan(transforms.diagnostics_of(read)["server_loss"])


def test_fedl2g_sends_the_gradient_of_the_quiz_after_a_pseudo_step():
    method = fedl2g(toys.SPEC, quiz=2, study=4, inner_rate=0.1)
    params, norm, _ = method.init_client(NET, KEY)
    data = Data(Examples(jnp.asarray(X), jnp.asarray(Y)), Shard(jnp.arange(6), 6))
    me, vectors = client(params, norm, COUNT[0]), MEAN[0]
    state = FedL2GState(jnp.asarray(vectors), jnp.int32(0))
    up, _ = method.upload(NET, me, me, data, state, ())
    studied, held = jnp.asarray([1, 2]), np.array([0, 3])  # of the first four

    def quiz(vectors):
        def loss(params):
            out = NET.apply(params, norm["net"], X[:4], True, KEY)
            log = jax.nn.log_softmax(out.logits)[jnp.arange(4), Y[:4]]
            away = jnp.mean((out.feat - vectors[Y[:4]]) ** 2, 1)
            return jnp.mean((away - log)[studied])

        grads = jax.grad(loss)(params["net"])
        moved = jax.tree.map(lambda w, g: w - 0.1 * g, params["net"], grads)
        return ce(NET.apply(moved, norm["net"], X[held], True, KEY).logits, Y[held])

    np.testing.assert_allclose(up.value, jax.grad(quiz)(vectors), rtol=1e-4, atol=1e-6)


def test_no_network_of_fedl2g_trains_in_its_warm_up():
    method = fedl2g(toys.SPEC, quiz=2, study=4, warm_up=1)
    start, first, second = (toys.run(method, rounds=r).params for r in range(3))
    assert toys.gap(start, first) == 0 and toys.gap(first, second) > 1e-3


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
    out = NET.apply(params["net"], norm["net"], X, True, KEY)
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


def test_fedmd_digests_mean_public_scores_and_then_revisits_the_own_examples():
    method, (params, norm) = fedmd(toys.SPEC, public=PUBLIC), NET.init(KEY)
    params, norm = {"net": params}, {"net": norm}
    me = client(params, norm, COUNT[0]).replace(steps=jnp.int32(4))
    consensus = jax.random.normal(KEY, (4, 5))

    def loss(step):
        return method.loss(NET, params, norm, batch(step=step), consensus, me)[0]

    row = jax.random.randint(jax.random.fold_in(KEY, 1), (6,), 0, 4)
    both = (
        NET.apply(params["net"], norm["net"], x, True, KEY) for x in (X, PUBLIC[row])
    )
    own, known = (out.logits for out in both)
    digest = np.abs(known - consensus[row]).mean()
    got = [loss(step) for step in range(4)]
    want = [digest, digest, ce(own, Y), ce(own, Y)]
    np.testing.assert_allclose(got, want, rtol=1e-5)
    scores = np.random.default_rng(3).normal(size=(3, 4, 5))
    scores[1] = 0  # absent
    got = method.pre_aggregate(jnp.ones((4, 5)), jnp.asarray(scores), KEY)
    np.testing.assert_allclose(got, scores[[0, 2]].mean(0), rtol=1e-5)


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
        return NET.apply(params["net"], norm, PUBLIC[row], True, KEY).logits

    first, third = (logits(jax.tree.map(lambda a, k=k: a[k], each)) for k in (0, 2))
    teacher = jax.nn.softmax((first + third) / 2)

    def kl(params):
        return -jnp.mean(jnp.sum(teacher * jax.nn.log_softmax(logits(params)), 1))

    got = method.update(NET, start, up, KEY)
    grads = jax.grad(kl)(mean)
    for new, old, g in zip(*map(jax.tree.leaves, (got, mean, grads)), strict=True):
        clear, step = np.abs(g) > 1e-4, -0.01 * np.sign(g)
        np.testing.assert_allclose((new - old)[clear], step[clear], rtol=1e-2)
    seen = set()

    def apply(params, norm, x, train, key):
        jax.debug.callback(lambda a: seen.add(a.tobytes()), jax.random.key_data(key))
        return NET.apply(params, norm, x, train, key)

    three = feddf(toys.SPEC, training=one._replace(server_epochs=3), public=PUBLIC)
    jax.block_until_ready(three.update(NET._replace(apply=apply), start, up, KEY))
    jax.effects_barrier()
    assert len(seen) == 3  # every step has a dropout mask of its own


def make(**fields):
    return toys.method(fedgen.fedgen, noise=4, hidden=8, **fields)


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
    keys = jax.random.split(jax.random.key(4), 2)
    heads = jax.vmap(lambda key: NET.init(key)[0]["head"])(keys)
    count = jnp.array([[3, 1, 0, 2, 1], [1, 4, 0, 2, 0]], jnp.int32)
    up = fedgen.FedGenUpload(heads, count)
    after = jax.jit(method.update, static_argnums=0)(NET, server, up, KEY)
    y = jnp.array([0, 1, 3, 4] * 8)
    logits = NET.head(after.sent.head, fedgen.generate(after.sent.generator, y, 5, KEY))
    assert np.mean(np.argmax(logits, 1) == y) > 0.9
    assert after.sent.counts.tolist() == [4, 5, 0, 4, 1]
    assert 0 < transforms.diagnostics_of(after)["server_loss"] < 0.5

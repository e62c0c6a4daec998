"""FedMRL, FedL2G and FedSA: fused features, guiding vectors, anchors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.exchange import COUNT, KEY, MEAN, X, Y, client

from jaxproto.methods import fedl2g, fedsa
from jaxproto.methods.fedmrl import fedmrl
from jaxproto.types import Batch, Data, Examples, Protos, Shard, Spec

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn
NET, AUX = toys.net(8), toys.net(8, Spec(5, 4))


def ce(logits, y):
    return -jnp.mean(jax.nn.log_softmax(logits)[np.arange(len(y)), y])


def batch(row=None):
    return Batch(jnp.asarray(X), jnp.asarray(Y), jnp.ones(6), KEY, row)


def test_fedmrl_classifies_fused_features_and_their_first_entries():
    method = fedmrl(toys.SPEC, aux=AUX, aux_dim=4)
    params, norm, _ = method.init_client(NET, KEY)
    value, _ = method.loss(NET, params, norm, batch(), (), None)
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

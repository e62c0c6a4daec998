"""FedGen: what the generator learns, and what it teaches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.exchange import KEY, X, Y, client

from jaxproto import transforms
from jaxproto.methods import fedgen
from jaxproto.methods.lg_fedavg import lg_fedavg
from jaxproto.types import Batch

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn

SMALL = {"noise": 4, "hidden": 8}


def make(**fields):
    return toys.method(fedgen.fedgen, **SMALL | fields)


def test_fedgen_without_weight_is_lg_fedavg():
    plain, one = (toys.run(m) for m in (lg_fedavg(toys.SPEC), make(weight=0.0)))
    assert toys.gap(plain.params, one.params) < 1e-6
    assert toys.gap(plain.server, one.server.sent.head) < 1e-6
    taught = toys.run(make(weight=1.0))
    assert toys.gap(plain.server, taught.server.sent.head) > 1e-3
    first, second = (toys.run(m, rounds=1) for m in (lg_fedavg(toys.SPEC), make()))
    assert toys.gap(first.params, second.params) < 1e-6  # no labels are known yet


def test_the_loss_adds_that_of_generated_features_once_labels_are_known():
    method, net = make(weight=2.0), toys.net(8)
    down = method.broadcast(method.init_server(net, KEY))
    params, norm, _ = method.init_client(net, KEY)
    batch = Batch(jnp.asarray(X), jnp.asarray(Y), jnp.ones(6), jax.random.key(9))
    me = client(params, norm, jnp.ones(5))

    @jax.jit
    def loss(count_C):
        sent = down._replace(counts=count_C)
        return method.loss(net, params, norm, batch, sent, me)[0]

    plain = loss(jnp.zeros(5, jnp.int32))
    label_key, noise_key = jax.random.split(jax.random.fold_in(batch.key, 1))
    y = fedgen.draw_labels(jnp.array([0, 6, 0, 6, 0]), 6, label_key)
    assert {*y.tolist()} == {1, 3}
    feat = fedgen.generate(down.generator, y, 5, noise_key)
    logits = np.asarray(net.head(params["net"]["head"], feat))
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    want = plain - 2 * np.log(p[np.arange(6), y]).mean()
    got = loss(jnp.array([0, 6, 0, 6, 0], jnp.int32))
    np.testing.assert_allclose(got, want, rtol=1e-4)


def test_the_generator_learns_what_the_heads_of_all_clients_call_a_class():
    method, net = make(server_epochs=300, server_rate=0.02), toys.net(8)
    server = method.init_server(net, KEY)
    keys = jax.random.split(jax.random.key(4), 3)
    heads = jax.vmap(lambda key: net.init(key)[0]["head"])(keys)
    count = jnp.array([[3, 1, 0, 2, 1], [0, 0, 0, 0, 0], [1, 4, 0, 2, 0]], jnp.int32)
    heads = jax.tree.map(lambda a: a.at[1].set(0.0), heads)  # a lost upload
    up = fedgen.FedGenUpload(heads, count)
    update = jax.jit(method.update, static_argnums=0)
    after = update(net, server, up, KEY)
    y = jnp.array([0, 1, 3, 4] * 8)
    logits = net.head(after.sent.head, fedgen.generate(after.sent.generator, y, 5, KEY))
    assert np.mean(np.argmax(logits, 1) == y) > 0.9
    want = jax.tree.map(lambda a: (a[0] * 7 + a[2] * 7) / 14, heads)
    assert toys.gap(after.sent.head, want) < 1e-5
    assert after.sent.counts.tolist() == [4, 5, 0, 4, 1]
    assert 0 < transforms.diagnostics_of(after)["server_loss"] < 0.5
    rest = update(net, after, jax.tree.map(jnp.zeros_like, up), KEY)
    assert toys.gap(rest.sent, after.sent) == 0 and toys.gap(rest.opt, after.opt) == 0

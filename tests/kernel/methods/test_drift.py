"""FedProc, SCAFFOLD, FedDyn: formulas and identities."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import toys
from support.averaging import BASE, begun, drawn, make, run
from support.every import every
from support.exchange import KEY, on_batch

from jaxproto.core.types import Protos
from jaxproto.methods import fednova, fedproc
from jaxproto.methods.feddyn import FedDynState, FedDynUpload

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn


def cosines(a, b):
    return np.sum(a * b, -1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def test_fedproc_contrasts_with_prototypes_that_are_there_as_a_loop():
    rng = np.random.default_rng(1)
    feat, mean = rng.normal(size=(6, 3)), rng.normal(size=(2, 4, 3))
    count, y = np.float32([[1, 0, 1, 1], [1, 0, 0, 1]]), [0, 1, 2, 3, 3, 0]
    protos, mask = Protos(jnp.asarray(mean), jnp.asarray(count)), [1, 1, 1, 1, 1, 0]
    given = map(jnp.asarray, (feat, y, mask))
    got = fedproc.contrast(fedproc.unit_means(protos), *given, 2)
    total = 0.0
    for f, c in zip(feat[:5], y[:5], strict=True):
        score = {k: np.exp(cosines(f, mean[k]) / 2) for k in np.ndindex(2, 4)}
        own = sum(v for k, v in score.items() if count[k] and k[1] == c)
        every = sum(v for k, v in score.items() if count[k])
        total += -np.log(own / every) if own else 0.0
    np.testing.assert_allclose(got, total / 5, rtol=1e-5)
    none = Protos(0 * protos.mean, 0 * protos.count)
    args = none, jnp.zeros((6, 3)), jnp.asarray(y), jnp.ones(6), 1.0
    value, grads = jax.value_and_grad(fedproc.contrast, argnums=1)(*args)
    assert value == 0 and not np.any(grads)


def test_fedproc_begins_without_and_ends_with_the_cross_entropy_alone():
    assert toys.gap(run(make("fedproc")).server.params, run(BASE).server) < 1e-6
    r, plain = run(make("fedproc", rounds=2)), run(BASE, 1)
    assert r.server.round == 2
    assert toys.gap(r.server.params, run(BASE).server) > 1e-4
    first = run(make("fedproc", rounds=10**9), 1)  # no prototype, no cross-entropy
    begin = begun(make("fedproc")).params
    assert toys.gap(first.server.params, begin) < 1e-6 < toys.gap(plain.server, begin)
    up = r.report.up.protos
    here = up.count.astype(np.float32)
    want = np.einsum("kcd,kc->cd", up.mean, here) / np.maximum(here.sum(0), 1)[:, None]
    np.testing.assert_allclose(r.server.protos.mean, want, atol=1e-5)


FOUR = toys.only(*range(4))


@every([0.0, 0.7])
def test_scaffolds_server_has_the_mean_of_all_control_variates(momentum):
    """Also of those that did not take part; a round changes c_i to mean gradients."""
    sgd = fednova.LocalDescent(0.05, momentum)
    local = toys.LocalTraining(optax.sgd(0.05, momentum), epochs=2, batch_size=4)
    method = make("scaffold", num_clients=6, sgd=sgd)
    r = toys.run(method, rounds=2, local=local, sampler=FOUR)
    each = [r.clients[i].memory for i in range(6)]
    mean = jax.tree.map(lambda *a: sum(a) / 6, *each)
    assert toys.gap(r.server.control, mean) < 1e-5
    assert toys.gap(each[0], mean) > 1e-2 and toys.gap(each[5], mean) > 1e-3
    once = toys.run(method, rounds=1, local=local, sampler=FOUR)
    begin = begun(method).params
    changes = [optax.tree.sub(once.params[i], begin) for i in range(4)]
    want = jax.tree.map(lambda w, *d: w + sum(d) / 4, begin, *changes)
    assert toys.gap(once.server.params, want) < 1e-5


def test_feddyns_client_follows_its_gradient_and_its_distance():
    method, mu = make("feddyn", mu=0.3), 0.3
    down, params = BASE.init_server(toys.net(8), KEY), begun(BASE)
    own = drawn(params, 2, ())
    got = on_batch(method, down, params, own)[1]
    plain = on_batch(BASE, down, params)[1]
    each = plain, params, down, own
    want = jax.tree.map(lambda g, w, old, h: g + mu * (w - old) - h, *each)
    assert toys.gap(got, want) < 1e-5
    r = run(method, 1)
    begin = begun(method).params
    want = jax.tree.map(lambda a, b: -mu * (a - b), r.params[2], begin)
    assert toys.gap(r.clients[2].memory, want) < 1e-6


def test_feddyns_server_is_algorithm_1():
    """By h of the paper, which the server does not keep."""
    mu, n, w = 0.25, 4, {"w": np.float32([1.0, 2.0])}
    change = {"w": np.float32([[0.5, 0.0], [0.0, 0.0], [-1.0, 3.0]])}
    method = make("feddyn", mu=mu, num_clients=n)
    state, h, there = FedDynState(w, {"w": np.zeros(2)}), 0.0, np.float32([1, 0, 1])
    for _ in range(2):
        old = state.params["w"]
        h = h - mu * change["w"].sum(0) / n
        want = np.mean((old + change["w"])[there > 0], 0) - h / mu
        state = method.update(None, state, FedDynUpload(change, there), KEY)
        np.testing.assert_allclose(state.params["w"], want, rtol=1e-5)

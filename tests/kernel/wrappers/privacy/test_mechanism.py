"""Clipping, noise, and sums of noisy uploads of `jaxproto.wrappers.privacy`."""

import itertools
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from jaxproto.core import types
from jaxproto.core.types import Batch, Data, Examples, LossAux, NetOutput, Protos, Shard
from jaxproto.methods import METHODS
from jaxproto.methods.fedavg import FedAvgUpload
from jaxproto.prototypes.losses import cross_entropy
from jaxproto.wrappers.privacy import CLIENT, EXAMPLE, Privacy, mechanism, release

C = 1.5  # clipping norm
CLASSES = 3
VALUES = ((9.0, 0.0), (-9.0, 0.0), (0.1, 0.2), (0.0, -4.0), (0.0, 0.0))
PARAMS = np.float32([[1.0, 0.0, 2.0], [0.0, -1.0, 0.5]])
SPEC = types.Spec(CLASSES, 2)


def features():
    """A network whose features are its inputs."""

    def apply(params, norm, x, train, key=None):
        return NetOutput(x, x @ params, norm)

    return types.Net(lambda key: ((), ()), apply, lambda params, feat: feat)


@partial(jax.jit, static_argnums=2)
def class_rows(x, y, made):
    body = SimpleNamespace(params={"net": jnp.eye(2)}, norm={"net": ()})
    data = Data(Examples(x, y), Shard(jnp.arange(len(x)), jnp.int32(len(x))))
    return release.class_rows(features(), body, data, made, C, CLASSES)


@partial(jax.jit, static_argnums=3)
def gradient(x, y, mask, privacy):
    net = features()

    def loss(params, norm, batch, down, client):
        out = net.apply(params, norm, batch.x, True)
        value = cross_entropy(out.logits, batch.y, batch.mask)
        return value, LossAux(norm, batch.y.sum())

    batch = Batch(*map(jnp.asarray, (x, y, mask)), jax.random.key(0))
    return mechanism.dp_sgd_gradient(privacy)(loss)(PARAMS, (), batch, (), ())


def moved(every):
    return [np.linalg.norm(a - b) for a, b in itertools.combinations(every, 2)]


def test_another_example_or_client_moves_what_is_sent_by_two_norms_at_most():
    """And by no much less: the bound is tight."""
    silent, mask = Privacy(EXAMPLE, C, 0.0), np.float32([1, 1, 0])
    found = {"weighed": [], "counted": [], "gradient": []}
    for value, label in itertools.product(VALUES, range(CLASSES)):
        x = np.float32([value, (1.0, 2.0), (-3.0, 1.0)])
        y = np.int32([label, 0, 1])
        for name, weighed in (("weighed", True), ("counted", False)):
            made = release.MEANS._replace(weighed=weighed)
            found[name].append(np.asarray(class_rows(x, y, made)))
        found["gradient"].append(2 * np.asarray(gradient(x, y, mask, silent)[1]))
    for name, sums in found.items():
        assert 1.4 * C < np.max(moved(sums)) <= 2 * C * (1 + 1e-5), name
    clipped = jax.jit(lambda up: release.clip_client_rows(up, release.MEANS, C))
    sums = []
    heres = itertools.product((0, 1), repeat=CLASSES)
    for scale, here in itertools.product((-50.0, -1.0, 0.1, 50.0), [*heres]):
        mean = scale * np.ones((CLASSES, 2), np.float32)
        up = Protos(jnp.asarray(mean), jnp.asarray(here, jnp.float32))
        sums.append(np.asarray(clipped(up)))
    assert np.max([*map(np.linalg.norm, sums)]) <= C * (1 + 1e-5)
    assert 1.9 * C < np.max(moved(sums)) <= 2 * C * (1 + 1e-5)


def test_padding_and_examples_that_overflow_have_no_part_in_the_gradient():
    loose, y = Privacy(EXAMPLE, 1e6, 0.0), np.int32([0, 1, 2])
    x = np.float32([[1, 2], [3, -1], [50, 50]])
    logits = x[:2] @ PARAMS
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    wanted = x[:2].T @ (p - np.eye(3)[:2]) / 2
    (value, _), grads = gradient(x, y, np.float32([1, 1, 0]), loose)
    np.testing.assert_allclose(grads, wanted, rtol=1e-5)
    np.testing.assert_allclose(value, -np.log(p[[0, 1], [0, 1]]).mean(), rtol=1e-5)
    for bad in (3e38, np.inf, np.nan):
        x[2] = bad, -bad
        (value, _), grads = gradient(x, y, np.ones(3, np.float32), loose)
        assert np.isfinite(value)
        np.testing.assert_allclose(3 * grads, 2 * wanted, rtol=1e-5)
        clipped = mechanism.clip_by_norm({"a": jnp.asarray(x), "b": jnp.ones(2)}, 1.0)
        assert all(np.isfinite(a).all() for a in clipped.values())
        rows = jax.vmap(lambda row: mechanism.clip_by_norm(row, 1.0))(jnp.asarray(x))
        norms = np.linalg.norm(rows, axis=1)
        np.testing.assert_allclose(norms, [1, 1, 0], rtol=1e-6)


def test_there_is_a_derivative_where_an_example_has_none_and_at_zero():
    silent, mask, y = Privacy(EXAMPLE, C, 0.0), np.float32([1, 0]), np.int32([0, 1])
    of = jax.grad(lambda x: gradient(x, y, mask, silent)[1][0, 0])  # as an attack's is
    found = of(jnp.float32([[1, 2], [3, -1]]))
    assert np.isfinite(found).all() and np.any(found[0])
    total = jax.grad(lambda x: mechanism.clip_by_norm(x, C).sum())
    np.testing.assert_array_equal(total(jnp.zeros(3)), 1.0)


def test_norms_and_sums_are_made_of_full_products():
    x, y = np.ones((2, 2), np.float32), np.zeros(2, int)
    own = Privacy(EXAMPLE, 1.0, 0.0)
    traced = str(jax.make_jaxpr(gradient, static_argnums=3)(x, y, np.ones(2), own))
    assert traced.count("dot_general") == traced.count("Precision.HIGHEST") / 2 > 0


def test_the_noise_of_a_sum_is_the_multiplier_times_the_norm(monkeypatch):
    """Gaussian to its tails, without an edge that another data set passes."""
    draws = 400_000
    noise = jax.jit(mechanism.add_gaussian_noise)
    own, zeros = Privacy(EXAMPLE, C, 2.0), jnp.zeros(draws)
    drawn = noise({"a": zeros, "b": zeros}, own.deviation, jax.random.key(0))
    unit = np.asarray(drawn["a"]) / (2 * C)
    assert abs(np.corrcoef(drawn["a"], drawn["b"])[0, 1]) < 0.01
    for tail in (1.0, 3.0, 4.0):  # sizes as of a Gaussian, within four deviations
        expected = draws * 2 * stats.norm.sf(tail)
        assert abs((np.abs(unit) > tail).sum() - expected) < 4 * expected**0.5
    shared = Privacy(CLIENT, C, 2.0, among=4.0)
    keys = jax.random.split(jax.random.key(1), 4)
    total = sum(noise({"a": zeros}, shared.deviation, key)["a"] for key in keys)
    assert abs(np.std(total) / (2 * C) - 1) < 0.01
    # the largest number that a draw of float32 can be, in every draw
    largest = float(jnp.sqrt(2.0) * jax.lax.erf_inv(jnp.nextafter(jnp.float32(1), 0)))
    assert largest == pytest.approx(5.42, abs=0.01)
    monkeypatch.setattr(
        jax.random, "normal", lambda key, shape, dtype: jnp.full(shape, -5.22, dtype)
    )
    edge = mechanism.add_gaussian_noise(jnp.zeros(3), 1.0, jax.random.key(0))
    assert np.all(np.abs(edge) > 10)


def test_joined_uploads_are_means_by_weight_without_unsure_classes():
    sure = Privacy(CLIENT, C, 0.1, among=2.0)  # deviation of the sum: 0.15
    rest = [1, 1, 0.1], [0, 0, 0]
    mean = jnp.float32([[[2, 4, 1], *rest], [[6, 0, 3], *rest]])
    given = sure, release.MEANS, jax.random.key(0)
    joined = jax.jit(lambda up: release.sum_noisy_uploads(up, *given))
    made = joined(Protos(mean, jnp.ones((2, 3))))
    assert made.count.tolist() == [[1, 0, 0]]
    np.testing.assert_allclose(made.mean[0], [[2, 1], [0, 0], [0, 0]], atol=1e-6)
    assert not joined(Protos(jnp.zeros((2, 3, 3)), jnp.zeros((2, 3)))).count.any()


@pytest.mark.long
def test_the_server_adds_the_noise_of_clients_whose_upload_is_lost():
    """The sum has the noise that is accounted for, whoever comes."""
    own = Privacy(CLIENT, C, 2.0, among=4.0)
    sums, size = release.MEANS._replace(weighed=False), 50_000

    @jax.jit
    def deviation(there):
        here = jnp.arange(4)[:, None] < there
        zeros, keys = jnp.zeros((4, 3, size)), jax.random.split(jax.random.key(0))
        shares = mechanism.add_gaussian_noise(zeros, own.deviation, keys[0])
        count = jnp.broadcast_to(here, (4, 3)).astype(jnp.float32)
        up = Protos(jnp.where(count[..., None] > 0, shares, 0.0), count)
        return release.sum_noisy_uploads(up, own, sums, keys[1]).mean.std()

    for there in (1, 3, 4):
        assert float(deviation(there)) == pytest.approx(2 * C, rel=0.01)
    method = METHODS["fedavg"](SPEC, privacy=own)

    @jax.jit
    def after(there):
        server = {"w": jnp.full(4 * size, 9.0)}
        keys = jax.random.split(jax.random.key(2))
        total, share = {"w": there * server["w"]}, own.deviation * there**0.5
        total = mechanism.add_gaussian_noise(total, share, keys[0])
        return method.update.finish(None, server, (total, there), keys[1])["w"]

    for there in (1.0, 3.0, 4.0):  # a lost upload changes neither noise nor divisor
        assert float(after(there).std()) == pytest.approx(2 * C / 4, rel=0.01)
        assert float(after(there).mean()) == pytest.approx(9, abs=0.01)
    assert np.all(after(0.0) == 9)
    silent = METHODS["fedavg"](SPEC, privacy=Privacy(CLIENT, C, 0.0))
    up = FedAvgUpload({"w": jnp.full(4, 10.0)}, jnp.int32(123))
    sent = silent.release(None, None, None, up, {"w": jnp.ones(4)}, jax.random.key(0))
    np.testing.assert_allclose(sent.params["w"], 1 + C / 2, rtol=1e-6)
    assert sent.size == 1  # the change is clipped, and the size is not sent

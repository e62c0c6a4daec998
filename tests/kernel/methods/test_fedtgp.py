"""FedTGP's server: the golden run of the released code, and its edges."""

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from support import toys

from jaxproto.core.types import Protos, Spec
from jaxproto.methods import fedtgp
from jaxproto.prototypes import kernels

GOLDEN = np.load(Path(__file__).parents[2] / "fixtures" / "fedtgp.npz")
KEY = jax.random.key(2)


def golden_network():
    """Returns the golden network; a PyTorch Linear keeps the transposed kernel."""
    g = GOLDEN
    return {
        "embedding": g["embedding"],
        "hidden": {"kernel": g["w1"].T, "bias": g["b1"]},
        "out": {"kernel": g["w2"].T, "bias": g["b2"]},
    }


def golden_pairs():
    label = GOLDEN["labels"]
    return fedtgp.ServerExamples(GOLDEN["uploads"], label, np.ones(len(label), bool))


@jax.jit
def golden_margin(data):
    sums = kernels.class_sum(data.proto, data.label, data.here * 1.0, 10)
    return jnp.minimum(kernels.max_nearest_distance(kernels.mean_of(sums)), 100.0)


def padded(data, order_EN, extra):
    """Surrounds the examples with `extra` rows that were not uploaded."""
    n, edges = len(data.label), (extra, extra)
    proto = np.pad(data.proto, (edges, (0, 0)), constant_values=9.0)
    flat = (np.pad(a, edges) for a in (data.label, data.here))
    more = fedtgp.ServerExamples(proto, *flat)
    absent = np.setdiff1d(np.arange(n + 2 * extra), extra + np.arange(n))
    tail = np.tile(absent, (len(order_EN), 1))
    return more, np.concatenate([order_EN + extra, tail], 1)


def test_the_golden_run_is_matched_also_with_absent_rows():
    """../shared/golden tgp_k10_d64: FedTGP's released server step in PyTorch 2.13."""
    data, order_EN = padded(golden_pairs(), GOLDEN["permutations"], 13)
    delta = golden_margin(golden_pairs())
    options = fedtgp.ServerTraining(server_rate=0.01, server_batch=32)
    loss = functools.partial(fedtgp.contrastive_loss, delta)
    train = jax.jit(fedtgp.train, static_argnums=(0, 4))
    network, last_E = train(options, golden_network(), data, order_EN, loss)
    np.testing.assert_allclose(delta, GOLDEN["margin"], rtol=1e-5)
    np.testing.assert_allclose(last_E, GOLDEN["last_batch_loss"], rtol=1e-4)
    made = fedtgp.generate(network)
    np.testing.assert_allclose(made, GOLDEN["prototypes"], atol=1e-4)


def test_the_margin_is_the_largest_gap_over_present_classes_and_tau_at_most():
    """The largest over classes of the distance to the nearest other; one has none."""
    rng = np.random.default_rng(0)
    mean, here = rng.normal(size=(6, 4)) + 100, np.array([1, 1, 0, 1, 1, 0])
    seen = [j for j in range(6) if here[j]]
    far = np.linalg.norm(mean[:, None] - mean, axis=-1)
    gaps = [min(far[j, k] for k in seen if k != j) for j in seen]
    protos = Protos(jnp.asarray(mean, jnp.float32), jnp.asarray(here))
    got = jax.jit(kernels.max_nearest_distance)(protos)
    np.testing.assert_allclose(got, max(gaps), rtol=1e-4)
    mean = jnp.zeros((2, 3, 4)).at[0, 1].set(1e6)
    for holders in ([0], [0, 1]):
        count = jnp.zeros((2, 3)).at[0, jnp.asarray(holders)].set(1)
        assert jax.jit(fedtgp.margin)(Protos(mean, count), 100.0) == 100


def test_every_epoch_visits_present_rows_first_and_gradients_are_finite():
    """The generator has the paper's parameters: K d + 2 (d^2 + d)."""
    here = jnp.asarray([0, 1, 1, 0, 1, 1, 1, 1], bool)
    draw = jax.jit(fedtgp.batch_orders, static_argnums=1)
    order = np.asarray(draw(here, 6, KEY))
    for row in order:
        assert set(row[:6]) == {1, 2, 4, 5, 6, 7} and sorted(row) == list(range(8))
    assert len({tuple(row) for row in order}) > 1
    longer = draw(jnp.pad(here, (0, 5)), 6, KEY)
    np.testing.assert_array_equal(order[:, :6], longer[:, :6])
    network = golden_network()
    own = fedtgp.generate(network)
    data = fedtgp.ServerExamples(own, jnp.arange(10), jnp.ones(10, bool))
    slope = jax.jit(jax.grad(fedtgp.contrastive_loss, 1))
    grads = slope(1.0, network, data, np.arange(10), np.ones(10))
    assert all(np.all(np.isfinite(a)) for a in jax.tree.leaves(grads))
    shapes = jax.eval_shape(lambda: fedtgp.init_network(Spec(10, 500), KEY))
    assert sum(a.size for a in jax.tree.leaves(shapes)) == 506_000


METHOD = fedtgp.fedtgp(Spec(5, 8), training=fedtgp.ServerTraining(3))
MEAN_KCD = np.random.default_rng(1).normal(size=(3, 5, 8)).astype(np.float32)


@jax.jit
def step(server, count_KC):
    """A round of the server with made-up uploads of three clients."""
    return METHOD.update(None, server, Protos(jnp.asarray(MEAN_KCD), count_KC), KEY)


def start():
    return jax.jit(METHOD.init_server, static_argnums=0)(None, jax.random.key(0))


def test_after_one_upload_every_class_has_a_prototype_and_the_generator_stays():
    """Also those that nobody uploaded; before it, no class has one."""
    one_KC = np.zeros((3, 5))
    one_KC[1, 2] = 1
    server = step(start(), one_KC)
    np.testing.assert_array_equal(server.protos.count, np.ones(5))
    assert toys.gap(server.protos.mean, fedtgp.generate(server.network)) < 1e-5
    two = step(server, np.ones((3, 5)))
    assert toys.gap(server.network, two.network) > 1e-4
    assert toys.gap(start()[:2], step(start(), 0 * one_KC)[:2]) == 0
    assert np.all(start().protos.count == 0)

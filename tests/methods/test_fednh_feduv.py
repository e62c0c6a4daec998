"""FedUV and FedNH: identities, formulas, golden numbers."""

import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.averaging import BASE, COUNTS, begun, drawn, make, run

from jaxproto.methods import fednh, feduv
from jaxproto.types import Protos, Spec

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn

GOLDEN = np.load(Path(__file__).parents[1] / "fixtures" / "kernels.npz")


def test_feduv_is_fedavg_and_a_variance_term_that_is_pytorchs():
    """V is 0 where every column reaches 0.31623, for 10 classes; golden `feduv_v`."""
    plain = run(make("feduv", variance=0.0, uniformity=0.0))
    assert toys.gap(plain.server, run(BASE).server) == 0
    np.testing.assert_allclose(np.eye(10).std(0, ddof=1), 0.31623, atol=5e-6)
    assert feduv.variance_gap(1e3 * jnp.eye(10), jnp.ones(10)) < 1e-6
    same = feduv.variance_gap(jnp.zeros((10, 10)), jnp.ones(10))
    np.testing.assert_allclose(same, 0.31623, atol=5e-6)
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

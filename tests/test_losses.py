"""Losses against the golden numbers of PyTorch, and against loops."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxproto import losses
from jaxproto.types import Protos

GOLDEN = np.load(Path(__file__).parent / "fixtures" / "kernels.npz")
RNG = np.random.default_rng(1)
PULLS = [losses.sq_l2_mean, losses.mse_mean, losses.l2_of_means]


def golden(name):
    return jnp.asarray(GOLDEN[f"loss_b8_k10_d32.{name}"])


def test_cross_entropy_and_mse_match_pytorch_in_value_and_gradient():
    """Golden `loss_b8_k10_d32`: PyTorch 2.13, float32 on a CPU."""
    y, ones = golden("labels"), jnp.ones(8)
    protos = Protos(golden("prototypes"), jnp.ones(10))

    def total(logits, feat):
        ce = losses.cross_entropy(logits, y, ones)
        mse = losses.mse_mean(protos, feat, y, ones)
        return ce + 10 * mse, (ce, mse)

    grad = jax.grad(total, (0, 1), has_aux=True)
    slopes, (ce, mse) = grad(golden("logits"), golden("features"))
    np.testing.assert_allclose(ce, golden("cross_entropy"), atol=1e-6)
    np.testing.assert_allclose(mse, golden("mse_to_prototypes"), atol=1e-6)
    np.testing.assert_allclose(slopes[0], golden("grad_logits"), atol=1e-6)
    np.testing.assert_allclose(slopes[1], golden("grad_features"), atol=1e-6)


def batch():
    feat = RNG.normal(size=(9, 4)).astype(np.float32)
    protos = RNG.normal(size=(3, 4)).astype(np.float32)
    y = np.asarray([0, 0, 1, 1, 1, 2, 2, 0, 1])
    mask = np.asarray([1, 1, 1, 1, 1, 1, 1, 0, 0], np.float32)
    count = np.asarray([3.0, 1.0, 0.0], np.float32)  # class 2 has no prototype
    return feat, y, mask, protos, count


def test_squared_distance_is_the_mean_over_the_batch_with_absent_classes_as_zero():
    feat, y, mask, protos, count = batch()
    want = sum(
        m * (count[c] > 0) * np.sum((f - protos[c]) ** 2)
        for f, c, m in zip(feat, y, mask, strict=True)
    ) / sum(mask)
    p = Protos(jnp.asarray(protos), jnp.asarray(count))
    got = losses.sq_l2_mean(p, jnp.asarray(feat), jnp.asarray(y), jnp.asarray(mask))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    mse = losses.mse_mean(p, jnp.asarray(feat), jnp.asarray(y), jnp.asarray(mask))
    np.testing.assert_allclose(mse, want / 4, rtol=1e-5)


def test_distance_of_means_is_equation_5_on_the_batch():
    feat, y, mask, protos, count = batch()
    want = 0.0
    for c in range(3):
        mine = (y == c) & (mask > 0)
        if mine.any() and count[c] > 0:
            want += np.linalg.norm(feat[mine].mean(0) - protos[c])
    p = Protos(jnp.asarray(protos), jnp.asarray(count))
    got = losses.l2_of_means(p, jnp.asarray(feat), jnp.asarray(y), jnp.asarray(mask))
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("pull", PULLS)
def test_without_prototypes_there_is_no_pull(pull):
    feat, y, mask, protos, _ = map(jnp.asarray, batch())
    value, grads = jax.value_and_grad(lambda f: pull(nobody(protos), f, y, mask))(feat)
    assert value == 0 and np.all(grads == 0)


def nobody(protos):
    return Protos(protos, jnp.zeros(len(protos)))


@pytest.mark.parametrize("pull", PULLS)
def test_masked_examples_have_no_gradient_and_prototypes_are_targets_only(pull):
    feat, y, mask, protos, count = map(jnp.asarray, batch())

    def value(f, p):
        return pull(Protos(p, count), f, y, mask)

    by_feat, by_proto = jax.grad(value, (0, 1))(feat, protos)
    assert np.all(by_feat[mask == 0] == 0) and np.any(by_feat[mask > 0] != 0)
    assert np.all(by_proto == 0)


@pytest.mark.parametrize("pull", PULLS)
def test_features_on_their_prototypes_have_finite_gradients(pull):
    protos, y = jnp.eye(3), jnp.asarray([0, 1, 2])
    p = Protos(protos, jnp.ones(3))
    value, grads = jax.value_and_grad(lambda f: pull(p, f, y, jnp.ones(3)))(protos)
    assert value == 0 and np.all(np.isfinite(grads))

"""FPL, FedPCL, FedHP: clusters, losses, servers."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.averaging import BASE
from support.every import every
from support.exchange import COUNT, KEY, MEAN, Y, on_batch, output

from jaxproto.core.types import Protos, Spec
from jaxproto.methods import METHODS, fedhp, fpl, several_prototypes
from jaxproto.methods.fedpcl import FedPCLState
from jaxproto.prototypes import kernels
from jaxproto.summary.host_prototypes import learnt_prototypes

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn
SEVERAL = Protos(jnp.asarray(MEAN), jnp.asarray(COUNT))


def unit(a):
    return a / np.linalg.norm(a, axis=-1, keepdims=True)


def finch(points):
    """Sets of points, by FINCH's code in words: the last partition of several."""
    parts = [{i} for i in range(len(points))]
    while len(parts) > 1:
        mean = unit(np.stack([points[list(p)].mean(0) for p in parts]))
        near = mean @ mean.T - 9 * np.eye(len(parts))
        merged = [{i} for i in range(len(parts))]
        for i, j in enumerate(near.argmax(1)):
            a, b = (next(m for m in merged if k in m) for k in (i, j))
            if a is not b:
                merged.remove(b)
                a |= b
        coarser = [set().union(*(parts[i] for i in m)) for m in merged]
        if len(coarser) == 1 and len(parts) < len(points):
            break
        parts = coarser
    return parts


@every(range(6))
def test_clusters_are_finchs_of_the_prototypes_that_are_there(seed):
    """One prototype is its cluster, and none has no cluster."""
    rng = np.random.default_rng(seed)
    points, here = rng.normal(size=(11, 3)), rng.uniform(size=11) < (0.9, 0.4)[seed % 2]
    cluster = jax.jit(fpl.clusters, static_argnums=2)
    found, parts = cluster(points, here, 7), sorted(finch(points[here]), key=min)
    n = len(parts)
    assert np.sign(found.count).tolist() == [1.0] * n + [0.0] * (7 - n)
    assert found.count[:n].tolist() == [len(p) for p in parts]
    want = [points[here][list(p)].mean(0) for p in parts]
    np.testing.assert_allclose(found.mean[:n], want, atol=1e-5)
    assert seed % 2 or n > 1
    one = cluster(points, np.arange(11) == seed, 7)
    assert one.count.sum() == 1 and toys.gap(one.mean[0], points[seed]) < 1e-6
    assert cluster(points, np.zeros(11, bool), 7).count.sum() == 0


def test_fpls_loss_has_three_terms_and_its_broadcast_a_mean_for_pictures():
    method = fpl.fpl(toys.SPEC, num_clients=6)
    start = method.init_server(toys.net(8), KEY)
    down = start._replace(protos=several_prototypes.in_rows(SEVERAL))
    feat, ce = output().feat, on_batch(BASE, start.params)[0]
    con = reg = 0.0
    for f, y in zip(feat, Y, strict=True):
        held = [(k, c) for k, c in np.ndindex(3, 5) if COUNT[k, c]]
        score = {i: np.exp(unit(f) @ unit(MEAN[i]) / 0.02) for i in held}
        own = [i for i in held if i[1] == y]
        con += np.log(sum(score.values()) / sum(score[i] for i in own)) if own else 0
        reg += np.mean((f - np.mean([MEAN[i] for i in own], 0)) ** 2) if own else 0
    got = on_batch(method, down)[0] - ce
    np.testing.assert_allclose(got, (con + reg) / 6, rtol=1e-4)
    np.testing.assert_allclose(on_batch(method, start)[0], ce, rtol=1e-6)
    cohort = SimpleNamespace(ids=(0,))
    exp = SimpleNamespace(method=method, spec=toys.SPEC, cohorts=[cohort])
    seen = learnt_prototypes(exp, down, [SimpleNamespace(memory=())])
    assert seen.protos.mean.shape == (5, 8)
    assert seen.protos.count.tolist() == [2, 2, 2, 0, 3]


def test_nearest_of_several_prototypes_scores_a_class_by_its_nearest():
    got = several_prototypes.nearest(jnp.asarray(MEAN[2]), SEVERAL)
    away = np.where(COUNT > 0, np.sum((MEAN[2][:, None, None] - MEAN) ** 2, -1), np.inf)
    assert np.argmax(got, 1).tolist() == away.min(1).argmin(1).tolist()
    assert np.all(np.isneginf(got[:, 3]))


def test_fedpcls_loss_is_that_of_a_loop_with_global_prototypes_in_the_gaps():
    method = METHODS["fedpcl"](toys.SPEC, num_clients=4, temperature=0.5)
    several = several_prototypes.resized(SEVERAL, 4)
    mean = kernels.mean_over_clients(several)
    down = FedPCLState(mean, several_prototypes.in_rows(several))
    feat = output().feat
    here = [c for c in range(5) if mean.count[c] > 0]

    def near(f, y, proto):
        score = {c: np.exp(unit(f) @ proto[c] / 0.5) for c in here}
        return np.log(sum(score.values()) / score[y]) if y in here else 0.0

    filled = np.where(COUNT[..., None] > 0, MEAN, mean.mean)
    pairs = list(zip(feat, Y, strict=True))
    want = np.mean([near(f, y, np.asarray(mean.mean)) for f, y in pairs])
    want += np.mean([near(f, y, p) for f, y in pairs for p in filled])
    np.testing.assert_allclose(on_batch(method, down)[0], want, rtol=1e-4)
    start = method.init_server(None, KEY)
    value, grads, _ = on_batch(method, start)
    assert value == 0 and not any(np.any(g) for g in jax.tree.leaves(grads))


def test_fedpcl_collects_means_of_features_of_length_1_and_keeps_those_of_the_round():
    r = toys.run(METHODS["fedpcl"](toys.SPEC, num_clients=8), rounds=1)
    up = r.report.up
    lengths = np.linalg.norm(up.mean, axis=-1)
    assert lengths.max() <= 1 + 1e-6 and lengths[up.count > 0].min() > 0.1
    assert toys.gap(r.server.each.mean[:30], up.mean.reshape(-1, 8)) == 0
    assert r.server.each.count.shape == (40,) and not r.server.each.count[30:].any()


@every([(3, 2), (4, 8), (10, 64)])
def test_anchors_are_unit_vectors_nearly_as_far_apart_as_a_simplex(classes, dim):
    anchor = fedhp.spread_anchors(Spec(classes, dim))
    np.testing.assert_allclose(np.linalg.norm(anchor, axis=1), 1, rtol=1e-5)
    cosine = anchor @ anchor.T - 2 * np.eye(classes)
    assert np.abs(cosine.max(1) + 1 / (classes - 1)).max() < 0.1


def test_fedhp_weighs_prototypes_by_the_share_of_the_class_in_the_client():
    method = METHODS["fedhp"](toys.SPEC)
    start = method.init_server(None, KEY)
    got = method.update(None, start, SEVERAL, KEY)
    share, held = COUNT / COUNT.sum(1, keepdims=True), COUNT.sum(0) > 0
    want = np.einsum("kcd,kc->cd", MEAN, share)[held] / share.sum(0)[held, None]
    np.testing.assert_allclose(got.mean[held], want, rtol=1e-4)
    assert toys.gap(got.mean[~held], start.mean[~held]) == 0 and (~held).any()


def test_fedhps_loss_is_its_formula_and_at_a_prototype_its_gradient_is_finite():
    method = METHODS["fedhp"](toys.SPEC, anchoring=0.7)
    value, grads, _ = on_batch(method, method.init_server(None, KEY))
    feat = output().feat
    away = np.linalg.norm(feat[:, None] - fedhp.spread_anchors(toys.SPEC), axis=-1)
    p = np.exp(-away) / np.exp(-away).sum(1, keepdims=True)
    np.testing.assert_allclose(value, -np.log(p[np.arange(6), Y]).mean(), rtol=1e-4)
    assert np.any(grads["protos"]) and not np.any(grads["net"]["head"]["kernel"])
    slope = jax.grad(lambda f: fedhp.distances(f, f).sum())(jnp.asarray(feat))
    assert np.all(np.isfinite(slope))

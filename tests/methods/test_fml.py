"""FML: its loss, its clipping and its mean."""

from functools import cache, partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import fast_jit, toys
from support.every import every
from support.exchange import KEY, X, Y, alone, on_batch

from jaxproto import losses
from jaxproto.methods.fml import attached, detached, fml

GOLDEN = np.load(Path(__file__).parents[1] / "fixtures" / "kernels.npz")
AUX = toys.net(12)


@cache
def outputs():
    """Returns the outputs p and q of both networks on `X`, and their parameters."""
    method, net = fml(toys.SPEC, aux=AUX), toys.net(8)

    @fast_jit.jit
    def apply():
        params, norm, _ = method.init_client(net, KEY)
        pairs = [(n, params[k], norm[k]) for n, k in ((net, "net"), (AUX, "aux"))]
        return *(n.apply(p, s, jnp.asarray(X), True) for n, p, s in pairs), params

    return apply()


@pytest.mark.long
def test_fml_that_distils_nothing_is_local_and_detached_targets_get_no_gradient():
    """Clipping changes it; with beta = 1 only the private network distils."""
    of = partial(fml, toys.SPEC, aux=AUX, alpha=1.0, beta=1.0)
    free, clipped = (toys.run(of(clip=c)).params for c in (1e9, 0.1))
    for i, own in alone().items():
        assert toys.gap(free[i]["net"], own["net"]) < 1e-6
        assert toys.gap(clipped[i]["net"], own["net"]) > 1e-3

    def moved(target):
        of = partial(fml, toys.SPEC, aux=AUX, target=target, beta=1.0)
        with_kl, without = (on_batch(of(alpha=a))[1] for a in (0.5, 1.0))
        return toys.gap(with_kl["aux"], without["aux"])

    assert moved(detached) == 0 and moved(attached) > 1e-4


@every([attached, detached])
def test_the_loss_of_fml_is_its_formula(target):
    """And kl_mean PyTorch's: golden `loss_b8_k10_d32`, PyTorch 2.13."""
    method = fml(toys.SPEC, aux=AUX, alpha=0.3, beta=0.6, target=target)
    value, _, _ = on_batch(method)
    p, q, _ = outputs()
    log_p, log_q = (np.asarray(jax.nn.log_softmax(o.logits)) for o in (p, q))
    ce_p, ce_q = (-log[range(6), Y].mean() for log in (log_p, log_q))
    kl_qp = (np.exp(log_q) * (log_q - log_p)).mean()  # the mean over B and K
    kl_pq = (np.exp(log_p) * (log_p - log_q)).mean()
    want = 0.3 * ce_p + 0.7 * kl_qp + 0.6 * ce_q + 0.4 * kl_pq
    np.testing.assert_allclose(value, want, rtol=1e-5)
    names = "teacher_logits", "logits", "kl_mean"
    teacher, logits, want = (jnp.asarray(GOLDEN[f"loss_b8_k10_d32.{n}"]) for n in names)
    got = losses.kl_mean(teacher, logits, jnp.ones(8))
    np.testing.assert_allclose(got, want, atol=1e-6)


def test_networks_are_clipped_each_by_itself_and_the_server_takes_the_mean():
    method = fml(toys.SPEC, aux=AUX, clip=0.5)
    grads = on_batch(method)[1]
    grads["net"] = jax.tree.map(lambda a: a * 1e-3, grads["net"])

    got, norm = method.transform_grads(grads), optax.tree.norm
    factor = 0.5 / norm(grads["aux"])
    assert norm(grads["net"]) < 0.5 < norm(grads["aux"])
    assert toys.gap(got["net"], grads["net"]) == 0
    assert toys.gap(got["aux"], jax.tree.map(lambda a: a * factor, grads["aux"])) < 1e-6
    method, net = fml(toys.SPEC, aux=AUX), toys.net(8)
    server = method.init_server(net, KEY)
    up = jax.tree.map(lambda a: jnp.stack([a, 0 * a, a + 1.0]), server)
    want = jax.tree.map(lambda a: a + 0.5, server)
    assert toys.gap(method.update(net, server, up, KEY), want) < 1e-6
    nothing = jax.tree.map(jnp.zeros_like, up)
    assert toys.gap(method.update(net, server, nothing, KEY), server) == 0

"""FedMD and FedDF: phases, consensus and the server's steps on public examples."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.exchange import COUNT, KEY, X, Y, client

from jaxproto.methods.fedavg import FedAvgUpload, fedavg
from jaxproto.methods.feddf import feddf
from jaxproto.methods.fedmd import fedmd
from jaxproto.methods.fedtgp import ServerTraining
from jaxproto.types import Batch

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn
PUBLIC = np.random.default_rng(2).normal(size=(4, toys.INPUT)).astype(np.float32)
NET = toys.net(8)


def test_fedmd_digests_public_scores_and_then_revisits_the_own_examples():
    method, (params, norm) = fedmd(toys.SPEC, public=PUBLIC), NET.init(KEY)
    params, norm = {"net": params}, {"net": norm}
    me = client(params, norm, COUNT[0]).replace(steps=jnp.int32(4))
    consensus = jax.random.normal(KEY, (4, 5))

    def loss(step):
        batch = Batch(jnp.asarray(X), jnp.asarray(Y), jnp.ones(6), KEY, None, step)
        return float(method.loss(NET, params, norm, batch, consensus, me)[0])

    row = jax.random.randint(jax.random.fold_in(KEY, 1), (6,), 0, 4)
    both = (NET.apply(params["net"], norm["net"], x, True) for x in (X, PUBLIC[row]))
    own, known = (out.logits for out in both)
    digest = np.abs(known - consensus[row]).mean()
    revisit = -np.mean(jax.nn.log_softmax(own)[np.arange(6), Y])
    got = [loss(step) for step in range(4)]
    np.testing.assert_allclose(got, [digest, digest, revisit, revisit], rtol=1e-5)


def test_fedmds_consensus_is_the_mean_of_who_sends_scores_or_stays():
    method = fedmd(toys.SPEC, public=PUBLIC)
    scores = np.random.default_rng(3).normal(size=(3, 4, 5))
    scores[1] = 0  # absent
    start = jnp.ones((4, 5))
    got = method.pre_aggregate(start, jnp.asarray(scores), KEY)
    np.testing.assert_allclose(got, scores[[0, 2]].mean(0), rtol=1e-5)
    assert toys.gap(method.pre_aggregate(start, jnp.zeros((3, 4, 5)), KEY), start) == 0


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
        return NET.apply(params["net"], norm, PUBLIC[row], True).logits

    first, third = (logits(jax.tree.map(lambda a, k=k: a[k], each)) for k in (0, 2))
    teacher = jax.nn.softmax((first + third) / 2)

    def kl(params):
        return -jnp.mean(jnp.sum(teacher * jax.nn.log_softmax(logits(params)), 1))

    got = method.update(NET, start, up, KEY)
    grads = jax.grad(kl)(mean)
    for new, old, g in zip(*map(jax.tree.leaves, (got, mean, grads)), strict=True):
        clear, step = np.abs(g) > 1e-4, -0.01 * np.sign(g)
        np.testing.assert_allclose((new - old)[clear], step[clear], rtol=1e-2)
    lost = FedAvgUpload(jax.tree.map(jnp.zeros_like, each), jnp.zeros(3, jnp.int32))
    assert toys.gap(method.update(NET, start, lost, KEY), start) == 0

"""FML, FedKD, FedDistill: losses, compression of the auxiliary network, costs."""

import re
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import toys
from support.every import every
from support.exchange import KEY, X, Y, client, golden, on_batch, output
from support.refusal import refused

from jaxproto import config, models, wire
from jaxproto.core.types import Protos, Spec
from jaxproto.experiment import build, method_builder
from jaxproto.methods import feddistill as fd
from jaxproto.methods import fedkd
from jaxproto.methods.fml import attached, detached, fml
from jaxproto.methods.local import local
from jaxproto.prototypes import losses
from jaxproto.summary import nominal_cost

AUX, RNG = toys.net(12), np.random.default_rng(3)
pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn


def make(**arguments):
    return fedkd.fedkd(toys.SPEC, aux=AUX, **arguments)


def test_distances_are_pytorchs():
    """Golden `loss_b8_k10_d32`; FedDistill's targets: prototypes[:, :K][labels]."""
    of = "logits", "teacher_logits", "prototypes", "labels"
    logits, teacher, z, y = golden(*of)
    kl = losses.kl_mean(teacher, logits, jnp.ones(8))
    ce = fd.softmax_ce(logits, z[:, :10][y], jnp.ones(8))
    want = golden("kl_mean", "feddistill_softmax_ce")
    np.testing.assert_allclose([kl, ce], want, atol=1e-6)


def test_feddistill_pulls_the_logits_of_classes_that_are_known_alone():
    z = Protos(jnp.asarray(RNG.normal(size=(5, 5))), jnp.float32([1, 1, 0, 0, 1]))
    method, logits = fd.feddistill(toys.SPEC, lam=0.7), output().logits
    target = np.where(np.asarray(z.count)[Y][:, None] > 0, z.mean[Y], logits)
    want = on_batch(local(toys.SPEC))[0]
    want += 0.7 * fd.softmax_ce(logits, target, jnp.ones(6))
    got = on_batch(method, fd.FedDistillState(z))[0]
    np.testing.assert_allclose(got, want, rtol=1e-5)


def test_detached_targets_of_fml_get_no_gradient():
    """With beta = 1 only the private network distils."""

    def moved(target):
        of = partial(fml, toys.SPEC, aux=AUX, target=target, beta=1.0)
        with_kl, without = (on_batch(of(alpha=a))[1] for a in (0.5, 1.0))
        return toys.gap(with_kl["aux"], without["aux"])

    assert moved(detached) == 0 and moved(attached) > 1e-4


def test_networks_are_clipped_each_by_itself():
    method = fml(toys.SPEC, aux=AUX, clip=0.5)
    grads = on_batch(method)[1]
    grads["net"] = jax.tree.map(lambda a: a * 1e-3, grads["net"])

    got, norm = method.transform_grads(grads), optax.tree.norm
    factor = 0.5 / norm(grads["aux"])
    assert norm(grads["net"]) < 0.5 < norm(grads["aux"])
    assert toys.gap(got["net"], grads["net"]) == 0
    assert toys.gap(got["aux"], jax.tree.map(lambda a: a * factor, grads["aux"])) < 1e-6


def test_a_detached_loss_trains_its_own_network_alone():
    """L_l for the mentor, with what the mentee does as constants."""
    grads, net, x, ones = on_batch(make())[1], toys.net(8), jnp.asarray(X), jnp.ones(6)
    params, norm, _ = make().init_client(net, KEY)
    q = AUX.apply(params["aux"], norm["aux"], x, True, KEY)
    like_BD = q.feat @ params["project"]
    ce_g = losses.cross_entropy(q.logits, Y, ones)

    @jax.jit
    def mentor(own):
        out = net.apply(own, norm["net"], x, True, KEY)
        term = losses.kl_mean(q.logits, out.logits, ones)
        term += losses.mse(out.feat, like_BD, ones)
        ce_l = losses.cross_entropy(out.logits, Y, ones)
        return ce_l + term / (ce_l + ce_g)

    assert toys.gap(jax.grad(mentor)(params["net"]), grads["net"]) < 1e-5
    both = on_batch(make(target=attached))[1]
    assert all(toys.gap(both[k], grads[k]) > 1e-3 for k in grads)


def there_and_back(x, energy):
    """A parameter after its journey, and the numbers that were sent."""
    given = {"w": jnp.asarray(x, jnp.float32)}
    sent = fedkd.compress(given, energy)
    return np.asarray(fedkd.decompress(sent, given)["w"]), int(wire.scalars(sent))


def smallest(square_L, energy):
    """The fewest that exceed the energy, and all where none less reaches it."""
    for k in range(len(square_L)):
        if sum(square_L[:k]) > energy * sum(square_L):
            return k
    return len(square_L)


def test_factors_are_those_of_the_singular_value_decomposition():
    """As many as the rule asks for; kernels are matrices per pair of channels."""
    low = RNG.normal(size=(12, 3)) @ RNG.normal(size=(3, 10))
    w = low + 0.1 * RNG.normal(size=(12, 10))
    kernel, tall = RNG.normal(size=(2, 3, 5, 5)), RNG.normal(size=(2, 3, 5, 2))
    cases = [(w, 0.5, 5), (w, 0.98, 5), (w.T, 0.9, 5), (kernel, 0.5, 2)]
    cases += [(tall, 0.3, 1), (tall.swapaxes(2, 3), 0.3, 1)]
    for x, energy, most in cases:
        turn = (2, 3, 0, 1) if x.ndim == 4 else (0, 1)  # channels are last axes
        u, s, v = np.linalg.svd(x)
        k = smallest(np.sum(s**2, tuple(range(x.ndim - 2))), energy)
        got, sent = there_and_back(x.transpose(turn), energy)
        pairs = x.size // (x.shape[-2] * x.shape[-1])
        assert 1 <= k <= most
        assert sent == k * pairs * (x.shape[-2] + x.shape[-1])
        want = (u[..., :k] * s[..., None, :k]) @ v[..., :k, :]
        np.testing.assert_allclose(got.transpose(turn), want, atol=1e-4)


def test_what_no_fewer_values_reach_is_sent_whole_and_not_as_zeros():
    """1x1 kernels and flat spectra, which the code zeroes, biases, all the energy."""
    flat = np.ones((1, 1, 6, 4)), np.eye(4), np.zeros((6, 5)), np.ones((1, 9))
    others = ((9, 4), 1.0), ((3, 3, 5, 2), 1.0), ((7,), 0.3)
    drawn = [(np.float32(RNG.normal(size=shape)), t) for shape, t in others]
    for x, energy in [*((x, 0.98) for x in flat), *drawn]:
        got, sent = there_and_back(x, energy)
        assert sent == x.size and toys.gap(got, x) == 0
    sent = fedkd.compress({"w": jnp.asarray(RNG.normal(size=(8, 8)))}, 0.95)["w"]
    assert not np.any(sent.factors.sent) and np.all(sent.whole.sent)


def equal(a, b):
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, a, b)))


def test_the_energy_rises_over_the_rounds_to_its_end():
    """T = 0.2 + (1 + r) / 4 * 0.8 in round r of 4, then 1."""
    method, net = make(energy_start=0.2, energy_end=1.0, rounds=4), toys.net(8)
    server = method.init_server(net, KEY)
    params, _, _ = method.init_client(net, jax.random.key(1))
    me = client(params, (), ())
    for r, energy in enumerate((0.4, 0.6, 0.8, 1.0, 1.0)):
        now = server._replace(round=jnp.int32(r))
        up, _ = method.upload(net, me, me, None, now, ())
        assert equal(up, fedkd.compress(params["aux"], energy))
        down = method.broadcast(now._replace(round=now.round + 1))
        assert equal(down.aux, fedkd.compress(server.aux, energy))
    nobody = jax.tree.map(lambda a: jnp.zeros((1, *a.shape), a.dtype), up)
    assert method.update(net, server, nobody, KEY).round == 1


PRINTED = {  # millions for FML and FedKD, and the network that gives them
    "CIFAR-10": ("34.32", "30.66", 853_000 + 500 * 10),
    "GTSRB-43": ("35.03", "31.29", 854_196 + 501 * 43),
    "CIFAR-100": ("36.12", "32.26", 853_000 + 500 * 100),
    "Flowers-102": ("36.21", "32.34", 854_196 + 501 * 102),
    "Tiny ImageNet": ("38.12", "34.05", 853_000 + 500 * 200),
}


def test_on_a_cpu_eigenvectors_are_those_of_one_matrix_at_a_time():
    """XLA's kernel for several matrices can wait for its own threads for ever."""
    a_KGNN = jax.random.normal(KEY, (3, 2, 5, 5))
    a_KGNN = a_KGNN + a_KGNN.swapaxes(-1, -2)
    f = jax.jit(jax.vmap(fedkd.eigenvectors))
    calls = re.findall(r"@lapack_ssyevd.*", f.lower(a_KGNN).as_text())
    assert calls and all("(tensor<5x5xf32>)" in call for call in calls)
    assert (f(a_KGNN) == jnp.linalg.eigh(a_KGNN)[1]).all()
    text = f.trace(a_KGNN).lower(lowering_platforms=("cuda",)).as_text()
    assert "while" not in text


@every(PRINTED.items())
def test_the_printed_costs_of_fml_and_fedkd(name, row):
    """T Table 1, 20 clients, d = 500. Two columns count the 4-layer CNN of hidden width
    d exactly, the three shared with S a body rounded to 0.853M and no bias of the head.
    """
    *printed, size = row
    for method, want in zip((fml, fedkd.fedkd), printed, strict=True):
        found = method(Spec(0, 500), aux=toys.net(8)).nominal([1] * 20, {"aux": size})
        assert f"{found / 1e6:.2f}" == want, name


def test_the_default_auxiliary_network_is_that_of_the_exact_columns():
    """And one that cannot be is refused."""
    c = config.load("configs/fedkd.py:spiral")
    for wrong, words in (
        ("cnn4_d", ("cnn4", " image")),
        ("cnn5", ("method.aux", "cnn4")),
    ):
        c.method.aux = wrong
        with refused(*words):
            build.experiment(c, "cpu")
    c = config.experiment("fml", "cifar10")
    shapes = {"num_classes": 43, "feat_dim": 500, "input_shape": (32, 32, 3)}
    network = partial(models.build, **shapes)
    method = method_builder.build_method(c.method, Spec(43, 500), network=network)
    found = nominal_cost.parameters(method, network("mlp"))
    assert found["aux"] == PRINTED["GTSRB-43"][-1]

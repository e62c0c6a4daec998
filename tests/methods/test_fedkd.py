"""FedKD: its loss, and how its auxiliary network travels."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.every import every
from support.exchange import KEY, X, Y, client, on_batch

from jaxproto import losses, wire
from jaxproto.methods import fedkd
from jaxproto.methods.fml import attached, detached
from jaxproto.wire import codec
from tests.methods.test_fml import AUX, outputs

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it

RNG = np.random.default_rng(3)


def make(**arguments):
    return fedkd.fedkd(toys.SPEC, aux=AUX, **arguments)


def there_and_back(x, energy):
    """A parameter after its journey, and the numbers that were sent."""
    given = {"w": jnp.asarray(x, jnp.float32)}
    sent = fedkd.compress(given, energy)
    return np.asarray(fedkd.decompress(sent, given)["w"]), int(wire.scalars(sent))


@every([attached, detached])
def test_the_loss_is_its_formula(target):
    value, _, _ = on_batch(make(target=target))
    p, q, _ = outputs()
    log_p, log_q = (np.asarray(jax.nn.log_softmax(o.logits)) for o in (p, q))
    ce = -log_p[range(6), Y].mean() - log_q[range(6), Y].mean()
    kl = ((np.exp(log_q) - np.exp(log_p)) * (log_q - log_p)).mean()
    gap = np.asarray(p.feat - q.feat @ matrix())
    want = ce + (kl + 2 * np.square(gap).mean()) / ce
    np.testing.assert_allclose(value, want, rtol=1e-5)


def matrix():
    """W of the client of `on_batch`."""
    return make().init_client(toys.net(8), KEY)[0]["project"]


def test_a_detached_loss_trains_its_own_network_alone():
    """L_l for the mentor, with what the mentee does as constants."""
    grads = on_batch(make())[1]
    _, q, params = outputs()
    net, ones = toys.net(8), jnp.ones(6)
    norm, like_BD = net.init(KEY)[1], q.feat @ matrix()
    ce_g = losses.cross_entropy(q.logits, Y, ones)

    @jax.jit
    def mentor(own):
        out = net.apply(own, norm, jnp.asarray(X), True)
        term = losses.kl_mean(q.logits, out.logits, ones)
        term += losses.mse(out.feat, like_BD, ones)
        ce_l = losses.cross_entropy(out.logits, Y, ones)
        return ce_l + term / (ce_l + ce_g)

    assert toys.gap(jax.grad(mentor)(params["net"]), grads["net"]) < 1e-5
    both = on_batch(make(target=attached))[1]
    assert all(toys.gap(both[k], grads[k]) > 1e-3 for k in grads)


@every([(9, 4), (4, 9), (3, 3, 5, 2), (5, 2, 3, 4), (7,)])
def test_a_parameter_arrives_with_the_energy_that_was_asked_for(*shape):
    x = np.float32(RNG.normal(size=shape))
    assert toys.gap(there_and_back(x, 1.0)[0], x) == 0
    for energy in (0.3, 0.6):
        lost = np.sum(np.square(there_and_back(x, energy)[0] - x))
        assert lost <= (1 - energy) * np.sum(np.square(x)) + 1e-5


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
    kernel = RNG.normal(size=(2, 3, 5, 5))
    for x, energy, most in ((w, 0.5, 5), (w, 0.9, 5), (w, 0.98, 5), (kernel, 0.5, 2)):
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
    """1x1 kernels and flat spectra, which the code zeroes, and random matrices."""
    for x in (np.ones((1, 1, 6, 4)), np.eye(4), np.zeros((6, 5)), np.ones((1, 9))):
        got, sent = there_and_back(x, 0.98)
        assert sent == x.size and toys.gap(got, x) == 0
    sent = fedkd.compress({"w": jnp.asarray(RNG.normal(size=(8, 8)))}, 0.95)["w"]
    assert not np.any(sent.factors.sent) and np.all(sent.whole.sent)


def equal(a, b):
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, a, b)))


@every(wire.FORMATS)
def test_factors_are_bytes_of_the_size_that_is_counted_far_fewer_than_the_whole(form):
    """For messages of a round: test_contract.py."""
    low = RNG.normal(size=(40, 2)) @ RNG.normal(size=(2, 30))
    kernel, bias = RNG.normal(size=(5, 5, 3, 2)), RNG.normal(size=9)
    params = {"w": low, "k": kernel, "b": bias}
    params = jax.tree.map(lambda a: jnp.asarray(a, jnp.float32), params)
    message = fedkd.compress(params, 0.5)
    packed = jax.device_get(wire.pack(message, form))
    size = int(wire.message_bytes(packed))
    codec.check_roundtrip(packed, size, form)
    decoded = codec.decode(codec.encode(packed, form), packed, form)
    assert equal(wire.unpack(decoded), wire.roundtrip(message, form))
    assert size < int(wire.message_bytes(wire.pack(params, form))) / 2


def test_the_server_averages_what_arrives_and_counts_rounds():
    r = toys.run(make(energy_start=1.0, energy_end=1.0), rounds=1)
    mean = jax.tree.map(lambda *a: sum(a) / 6, *(p["aux"] for p in r.params.values()))
    assert toys.gap(r.server.aux, mean) < 1e-6 and int(r.server.round) == 1
    size = sum(a.size for a in jax.tree.leaves(mean))
    assert r.report.scalars.tolist() == [size] * 6
    method, net = make(), toys.net(8)
    server = method.init_server(net, KEY)
    sent = fedkd.compress(server.aux, 0.5)
    up = jax.tree.map(lambda a: jnp.stack([a, jnp.zeros_like(a), a]), sent)
    got = method.update(net, server, up, KEY)
    assert toys.gap(got.aux, fedkd.decompress(sent, server.aux)) < 1e-6
    nothing = jax.tree.map(jnp.zeros_like, up)
    again = method.update(net, got, nothing, KEY)
    assert toys.gap(again.aux, got.aux) == 0 and int(again.round) == 2


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
    least = wire.scalars(fedkd.compress(params["aux"], 0.4))
    assert least < wire.scalars(up)
    assert make().broadcast(server).round == 0  # without a number of rounds: 0.95

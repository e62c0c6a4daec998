"""HeteroFL, FedRolex and FedPAC: parts of a network and heads for each client."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support import toys
from support.exchange import KEY, X, Y, on_batch

from jaxproto import wire
from jaxproto.core.types import Protos, Top
from jaxproto.methods.fedpac import FedPACUpload, combination, fedpac
from jaxproto.methods.heterofl import HeteroFLState, HeteroFLUpload, heterofl, part_of
from jaxproto.round import federation

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn
NET, ALL = toys.net(8), jnp.ones(3, bool)
PARAMS = {"net": NET.init(KEY)[0]}


def test_a_part_has_the_entries_between_its_units():
    """A convolution, a layer on its flattened map of 2 x 1 pixels, and the head."""
    body = {"layer0": jnp.zeros((3, 3, 1, 4)), "layer1": jnp.zeros((8, 6))}
    net = {"body": body, "head": {"kernel": jnp.zeros((6, 5)), "bias": jnp.zeros(5)}}
    part, rolled = part_of(net, 0.5, 0), part_of(net, 0.5, 3)
    conv, dense = part["body"]["layer0"], part["body"]["layer1"]
    assert conv.sum((0, 1, 2)).tolist() == [9, 9, 0, 0]
    assert dense[:, 0].tolist() == [True, True, False, False] * 2
    assert dense[0].tolist() == [True] * 3 + [False] * 3
    assert part["head"]["kernel"].sum(1).tolist() == [5, 5, 5, 0, 0, 0]
    assert part["head"]["bias"].all()
    seen = rolled["body"]["layer0"].any((0, 1, 2))
    assert seen.tolist() == [True, False, False, True]


def test_the_head_has_the_features_in_which_a_unit_is_pooled():
    """Features of two units each, and features of which two share a unit."""
    for features, fixed in ((3, "110"), (12, "111111000000")):
        hidden = {"first": jnp.zeros((features, 6)), "second": jnp.zeros((6, 5))}
        net = {"body": {"layer": jnp.zeros((2, 6))}, "head": hidden}
        for first, want in ((0, fixed), (3, fixed[::-1])):
            head = part_of(net, 0.5, first)["head"]
            assert [*map(int, head["first"][:, 0])] == [*map(int, want)]
            assert head["second"].all()


def test_a_part_trains_as_the_narrow_network():
    """Loss and gradient; entries outside get none."""
    mask = part_of(PARAMS["net"], 0.5, 0)
    cut = jax.tree.map(lambda a, on: jnp.where(on, a, 0.0), PARAMS["net"], mask)
    value, grads, _ = on_batch(heterofl(toys.SPEC), (), {"net": cut})
    outside = jax.tree.map(lambda g, on: jnp.where(on, 0.0, g), grads["net"], mask)
    assert toys.gap(outside, jax.tree.map(jnp.zeros_like, outside)) == 0
    h = X @ cut["body"]["in"][:, :4]
    h = jax.nn.relu((h - h.mean(0)) / jnp.sqrt(h.var(0) + 1e-5))
    logits = h @ cut["body"]["out"][:4, :4] @ cut["head"]["kernel"][:4]
    want = -jax.nn.log_softmax(logits + cut["head"]["bias"])[jnp.arange(6), Y].mean()
    np.testing.assert_allclose(value, want, rtol=1e-5)


def test_an_entry_is_the_mean_over_the_clients_that_have_it():
    method = heterofl(toys.SPEC, levels=2, num_clients=4)
    old_P = ravel_pytree(PARAMS)[0]
    sent = np.zeros((3, len(old_P)), bool)
    sent[0, :2] = sent[2, 0] = True
    part = Top(jnp.asarray([[3.0], [5.0], [7.0]]) * sent, jnp.asarray(sent))
    state = HeteroFLState(PARAMS, jnp.int32(4))
    after = method.update(NET, state, HeteroFLUpload(part), KEY)
    got = ravel_pytree(after.params)[0]
    assert got[:2].tolist() == [5, 3] and after.round == 5
    assert toys.gap(got[2:], old_P[2:]) == 0


def test_a_client_receives_its_part_and_its_bytes_are_counted():
    method = heterofl(toys.SPEC, levels=2, num_clients=3)
    sent = federation.broadcast(method, HeteroFLState(PARAMS, jnp.int32(0)), wire.EXACT)
    whole, part = 6 * 8 + 8 * 8 + 8 * 5 + 5, 6 * 4 + 4 * 4 + 4 * 5 + 5
    assert sent.scalars.tolist() == [whole, part, whole]  # client 2 is of level 0
    bitmap = wire.HEADER + 4 + -(-whole // 8)
    assert sent.bytes.tolist() == [4 * n + bitmap for n in (whole, part, whole)]
    down = wire.for_client(sent.message, 0)
    assert toys.gap(method.receive(PARAMS, down), PARAMS) == 0


def test_clients_with_equal_features_weigh_heads_by_their_inverse_variances():
    spread = jnp.asarray([0.1, 0.2, 0.4])
    got = combination(spread, jnp.zeros((3, 4)), 1, ALL)
    np.testing.assert_allclose(got, [4 / 7, 2 / 7, 1 / 7], atol=1e-3)
    two = jnp.asarray([True, True, False])
    without = combination(spread, jnp.zeros((3, 4)), 1, two)
    np.testing.assert_allclose(without, [2 / 3, 1 / 3, 0], atol=1e-3)
    far = combination(spread, 100 * jnp.eye(3, 4), 1, ALL)
    np.testing.assert_allclose(far, [0, 1, 0], atol=1e-3)


def test_no_other_combination_has_less_bias_and_variance():
    rng = np.random.default_rng(0)
    spread, h = rng.uniform(0.01, 0.1, 3), rng.normal(size=(3, 4)) * 0.2
    got = combination(jnp.float32(spread), jnp.float32(h), 2, ALL)

    def value(a):
        return np.sum(a**2 * spread) + np.sum((a @ (h[2] - h)) ** 2)

    best = min(value(a) for a in rng.dirichlet(np.ones(3), 5000))
    assert value(np.asarray(got)) < best + 1e-5


def test_a_client_gets_its_own_row_of_heads():
    method = fedpac(toys.SPEC, num_clients=4)
    server = method.init_server(NET, KEY)
    params = jax.vmap(lambda key: NET.init(key)[0])(jax.random.split(KEY, 2))
    protos = Protos(jnp.zeros((2, 5, 8)), jnp.asarray([[3.0] * 5, [1.0] * 5]), True)
    far = protos.replace(mean=100 * jax.random.normal(KEY, (2, 5, 8)))
    nets = params["body"], params["head"]
    up = FedPACUpload(*nets, protos, far, jnp.ones(2), jnp.asarray([3, 1]))
    after = method.update(NET, server, up, KEY)
    sent = federation.broadcast(method, after, wire.EXACT)
    for id, row in ((3, 0), (1, 1)):  # features far apart: own heads
        own = jax.tree.map(lambda a, row=row: a[row], params["head"])
        assert toys.gap(wire.for_client(sent.message, id).heads, own) < 1e-5
    first = NET.init(KEY)[0]["head"]
    assert toys.gap(wire.for_client(sent.message, 0).heads, first) == 0

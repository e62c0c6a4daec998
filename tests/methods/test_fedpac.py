"""FedPAC: combinations of heads, and rows of a broadcast for each client."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import toys
from support.exchange import KEY

from jaxproto import federation, wire
from jaxproto.methods.fedpac import FedPACUpload, combination, fedpac
from jaxproto.types import Protos

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn
NET, ALL = toys.net(8), jnp.ones(3, bool)


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


def test_a_client_gets_its_own_row_of_heads_and_its_bytes_count_one_row():
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
    numbers = sum(a.size for a in jax.tree.leaves(NET.init(KEY)[0]))
    assert sent.scalars.tolist() == [numbers + 5 * 8] * 4
    size = wire.HEADER + 4 * (numbers + 5 * 8) + 1  # 5 bits: rows
    assert sent.bytes.tolist() == [size] * 4

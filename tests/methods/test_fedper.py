"""FedPer: the body is the weighted mean of the clients', heads are private."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from support import toys

from jaxproto.methods.fedper import FedPerUpload, fedper
from jaxproto.methods.local import local
from jaxproto.participation import Participation
from jaxproto.report import nominal

METHOD = fedper(toys.SPEC)
SIZES_K = 5 + 2 * np.arange(6)  # n_i of the toys
run = functools.cache(functools.partial(toys.run, METHOD))


def test_the_body_is_the_mean_of_the_clients_weighted_by_examples():
    r = run(rounds=2)
    bodies = [r.params[i]["net"]["body"] for i in range(6)]
    want = jax.tree.map(lambda *a: np.average(a, axis=0, weights=SIZES_K), *bodies)
    assert toys.gap(want, r.server) < 1e-6
    plain = jax.tree.map(lambda *a: np.mean(a, axis=0), *bodies)
    assert toys.gap(plain, r.server) > 1e-4


def test_without_any_upload_the_body_stays():
    old = METHOD.init_server(toys.net(8), jax.random.key(0))
    nothing = jax.tree.map(lambda a: jnp.zeros((3, *a.shape)), old)
    up = FedPerUpload(nothing, jnp.zeros(3, jnp.int32))
    assert toys.gap(METHOD.update(None, old, up, None), old) == 0


def test_heads_never_leave_and_stay_apart():
    r = run(rounds=2)
    assert r.report.up._fields == ("body", "size")
    assert r.report.up.body.keys() == r.server.keys() == {"in", "out"}
    heads = [r.params[i]["net"]["head"] for i in range(6)]
    for i in range(5):
        assert toys.gap(heads[i], heads[i + 1]) > 1e-2
    mine = METHOD.receive(r.params[0], r.server)["net"]
    assert toys.gap(mine["head"], heads[0]) == 0
    assert toys.gap(mine["body"], r.server) == 0


def test_of_one_client_it_is_local_training_from_its_own_state():
    """With its own head, and the body that the server drew."""

    def alone(key, clients, r):
        on_K = jnp.arange(clients) == 4
        return Participation(on_K, on_K)

    def init_client(net, key):
        params, *rest = METHOD.init_client(net, key)
        start = METHOD.init_server(net, toys.KEY)
        return METHOD.receive(params, start), *rest

    begun = dataclasses.replace(local(toys.SPEC), init_client=init_client)
    one, other = (toys.run(m, rounds=3, sampler=alone) for m in (METHOD, begun))
    assert toys.gap(one.params[4], other.params[4]) < 1e-6
    assert toys.gap(one.server, one.params[4]["net"]["body"]) < 1e-6


def test_the_nominal_cost_is_two_bodies_of_every_client():
    """A toy's body has 6 x 8 + 8 x 8 weights."""
    assert nominal.nominal(METHOD, toys.net(8), [1, 2, 3]) == 2 * 3 * 112

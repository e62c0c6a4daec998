"""BatchNorm statistics in the average of the methods that average whole networks."""

import jax
import numpy as np
import pytest
from support import toys
from support.averaging import (
    BASE,
    COUNTS,
    FRAME,
    SIZES_K,
    TOYS,
    averaging,
    begun,
    drawn,
    make,
    run,
)
from support.exchange import client

from jaxproto.methods.fedavg import averaged_statistics, local_statistics
from jaxproto.round import client as clients

EQUAL = {"fednh", "fast", "scaffold", "feddyn"}  # weigh clients alike; others by n_i
every_method = pytest.mark.parametrize("name", FRAME)


FOUR_REPORT = toys.only(*range(6), reports=range(4))


def one_round(name):
    return run(averaging(name), 1, sampler=FOUR_REPORT)


@every_method
def test_the_server_averages_statistics_by_its_weights_beside_the_same_network(name):
    """After a round: its batches are normalised by themselves."""
    r, weight = one_round(name), np.ones(4) if name in EQUAL else SIZES_K[:4]
    norms = [r.clients[i].norm for i in range(4)]
    want = jax.tree.map(lambda *a: np.average(a, axis=0, weights=weight), *norms)
    assert toys.gap(want, r.server.norm.value) < 1e-6
    assert toys.gap(norms[0], want) > 1e-3
    plain = run(make(name, **TOYS.get(name, {})), 1, sampler=FOUR_REPORT)
    assert toys.gap(one_round(name).server.own, plain.server) < 1e-6


def test_averaged_statistics_are_where_clients_begin():
    net, start = toys.net(8), begun(averaging("fedavg"))
    other = start._replace(norm=drawn(start.norm, lead=()))
    examples, rows = toys.pool_and_rows()
    shard = jax.tree.map(lambda a: a[0], toys.shard(rows, [0]))
    for statistics in (local_statistics, averaged_statistics):
        method = make("fedavg", statistics=statistics)
        averaged = statistics is averaged_statistics
        params, norm, _ = method.init_client(net, jax.random.key(0))
        me = client(params, norm, COUNTS[0][0])
        down = other if averaged else start.own
        key = jax.random.key(1)
        task = clients.LocalTask(method, net, toys.LOCAL, key, down, examples)
        session = clients.begin_local_training(task, me, shard)
        want = other.norm.value if averaged else me.norm
        assert toys.gap(session.norm, want) == 0


def test_the_global_network_is_judged_by_the_averaged_statistics():
    """And the client's own by the client's."""
    net, r = toys.net(8), one_round("fedavg")
    me = r.clients[0]
    x = toys.pool_and_rows()[0].x[:7]
    got = averaging("fedavg").predict(net, me, x, r.server)
    mean = me.replace(norm=r.server.norm.value)
    both = [BASE.predict(net, c, x, r.server.own) for c in (me, mean)]
    assert toys.gap(got["head"], both[0]["head"]) == 0
    assert toys.gap(got["received"], both[1]["received"]) == 0
    assert toys.gap(both[0]["received"], both[1]["received"]) > 1e-3

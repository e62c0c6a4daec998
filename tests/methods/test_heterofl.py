"""HeteroFL and FedRolex: parts of a network, their training and their mean."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from support import toys
from support.exchange import KEY, X, Y

from jaxproto import federation, wire
from jaxproto.methods.fedavg import fedavg
from jaxproto.methods.heterofl import HeteroFLState, HeteroFLUpload, heterofl, part_of
from jaxproto.types import Batch, Top

pytestmark = pytest.mark.long  # baselines; `.ci/run` has them in turn
NET = toys.net(8)
PARAMS = {"net": NET.init(KEY)[0]}


def shapes(*of):
    return {
        "body": {f"layer{n}": jnp.zeros(shape) for n, shape in enumerate(of[:-1])},
        "head": {"kernel": jnp.zeros(of[-1]), "bias": jnp.zeros(of[-1][-1])},
    }


def test_a_part_has_the_entries_between_its_units():
    """A convolution, a layer on its flattened map of 2 x 1 pixels, and the head."""
    part = part_of(shapes((3, 3, 1, 4), (8, 6), (6, 5)), 0.5, 0)
    conv, dense = part["body"]["layer0"], part["body"]["layer1"]
    assert conv.sum((0, 1, 2)).tolist() == [9, 9, 0, 0]
    assert dense[:, 0].tolist() == [True, True, False, False] * 2
    assert dense[0].tolist() == [True] * 3 + [False] * 3
    assert part["head"]["kernel"].sum(1).tolist() == [5, 5, 5, 0, 0, 0]
    assert part["head"]["bias"].all()
    rolled = part_of(shapes((3, 3, 1, 4), (8, 6), (6, 5)), 0.5, 3)
    seen = rolled["body"]["layer0"].any((0, 1, 2))
    assert seen.tolist() == [True, False, False, True]


def test_a_part_trains_as_the_narrow_network():
    """Loss and gradient; entries outside get none."""
    mask = part_of(PARAMS["net"], 0.5, 0)
    cut = jax.tree.map(lambda a, on: jnp.where(on, a, 0.0), PARAMS["net"], mask)
    norm, batch = {"net": NET.init(KEY)[1]}, (jnp.asarray(X), jnp.asarray(Y))

    def loss(params):
        b = Batch(*batch, jnp.ones(6), KEY)
        return heterofl(toys.SPEC).loss(NET, {"net": params}, norm, b, (), None)[0]

    value, grads = jax.value_and_grad(loss)(cut)
    outside = jax.tree.map(lambda g, on: jnp.where(on, 0.0, g), grads, mask)
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


def test_one_level_is_fedavg_with_equal_weights():
    one = heterofl(toys.SPEC, levels=1, num_clients=6)
    server = toys.run(one, rounds=1, local=toys.STILL).server
    begun = toys.run(fedavg(toys.SPEC), rounds=1, local=toys.STILL).server
    assert toys.gap(server.params, begun) < 1e-6

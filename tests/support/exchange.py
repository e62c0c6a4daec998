"""One exchange of a prototype method with made-up local prototypes, in one program."""

import functools
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import wire
from jaxproto.core.types import Batch, Client
from support import fast_jit, toys

RNG = np.random.default_rng(7)
MEAN = RNG.normal(size=(3, 5, 8)).astype(np.float32)  # c_ij of 3 clients
COUNT = np.float32([[4, 0, 1, 0, 2], [2, 3, 0, 0, 8], [0, 6, 3, 0, 1]])  # n_ij; 3: none
X = RNG.normal(size=(6, toys.INPUT)).astype(np.float32)
Y = np.asarray([0, 1, 2, 4, 4, 3])
KEY = jax.random.key(5)
GOLDEN = np.load(Path(__file__).parents[1] / "fixtures" / "kernels.npz")  # of PyTorch


class Exchange(NamedTuple):
    """Messages of an exchange, the server after it, and a client's loss then."""

    up: object  # [K, ...] as the server has it
    server: object
    down: object
    loss: object  # of client 0
    feat: object  # its features of X in that loss


def client(params, norm, count_C):
    zero = jnp.zeros((), jnp.int32)
    return Client(params, norm, (), (), count_C, zero, zero)


def golden(*names):
    """Returns arrays of a loss of 8 examples, 10 classes, 32 dimensions in PyTorch."""
    return [jnp.asarray(GOLDEN[f"loss_b8_k10_d32.{name}"]) for name in names]


def batch(key=KEY, step=None):
    """Returns the examples X as the batch of a local step."""
    return Batch(jnp.asarray(X), jnp.asarray(Y), jnp.ones(len(Y)), key, None, step)


def output():
    """Returns the output of the network of `on_batch`'s client on the examples X."""
    net = toys.net(8)
    return jax.device_get(net.apply(*net.init(KEY), jnp.asarray(X), True, KEY))


@functools.cache
def exchange(method) -> Exchange:
    """Runs uploads, the server's step, loss of client 0.

    The train pass sees every example twice: its counts are not those of the data.
    """
    net = toys.net(8)

    @fast_jit.jit_to_the_bit
    def run(mean, count):
        params, norm, _ = method.init_client(net, KEY)

        def upload(mean_CD, count_C):
            sums = 2 * mean_CD * count_C[:, None], 2 * count_C
            after = client(params, norm, count_C)
            up, _ = method.upload(net, None, after, None, None, sums)
            return wire.roundtrip(up, "float32")

        up = jax.vmap(upload)(mean, count)
        server = method.update(net, method.init_server(net, KEY), up, KEY)
        down = wire.roundtrip(method.broadcast(server), "float32")
        me, given = client(params, norm, count[0]), batch()
        loss, _ = method.loss(net, params, norm, given, down, me)
        feat = net.apply(params["net"], norm["net"], given.x, True, KEY).feat
        return Exchange(up, server, down, loss, feat)

    return jax.device_get(run(MEAN, COUNT))


def on_batch(method, down=None, params=None, memory=(), key=KEY):
    """Returns value, gradient and sums of a client's loss on the examples X.

    The client is fresh, but for the parameters and the memory that are given.
    """
    net, given = toys.net(8), batch(key)

    @fast_jit.jit_to_the_bit
    def run(down, params):
        fresh, norm, _ = method.init_client(net, KEY)
        params = fresh if params is None else params
        me = client(params, norm, jnp.ones(5)).replace(memory=memory)

        def value(params):
            return method.loss(net, params, norm, given, down, me)

        (value, aux), grads = jax.value_and_grad(value, has_aux=True)(params)
        return value, grads, aux.sums

    return jax.device_get(run(down, params))

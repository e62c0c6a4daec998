"""FedAvg, FedProx, FedNova: formulas, refusals; training as released."""

import dataclasses
import functools
from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
from support import toys
from support.averaging import BASE, FRAME, SIZES_K, SPEC, begun, drawn, make
from support.every import check_every
from support.exchange import KEY, client, on_batch
from support.refusal import refused

from jaxproto.config.optimizers import build_optimizer
from jaxproto.core.types import Data, Shard
from jaxproto.methods import fednova
from jaxproto.round.cohort import check_cohorts


def test_the_global_network_is_the_mean_weighted_by_examples_of_what_arrives():
    r = toys.run(BASE, rounds=2, sampler=toys.only(*range(6), reports=range(5)))
    each = [r.params[i] for i in range(5)]
    want = jax.tree.map(lambda *a: np.average(a, 0, SIZES_K[:5]), *each)
    assert toys.gap(want, r.server) < 1e-6


def test_both_networks_are_evaluated_and_one_architecture_is_asked_for():
    """The message names method, cohorts and what to do, or cohort, leaf and shapes."""
    net, key = toys.net(8), jax.random.key(0)

    def rules(method, x):
        params, norm, memory = method.init_client(net, key)
        me = client(params, norm, jnp.zeros(())).replace(memory=memory)
        down = method.broadcast(method.init_server(net, key))
        return method.predict(net, me, x, down)

    x = jax.ShapeDtypeStruct((3, toys.INPUT), jnp.float32)
    for name in FRAME:
        found = jax.eval_shape(functools.partial(rules, make(name)), x)
        assert set(found) - {"global"} == {"head", "received"}, name
        method = dataclasses.replace(make(name), check_input=lambda x: None, name=name)
        with refused(f"{name} averages networks, ", " 2: toy8, toy16. "):
            check_cohorts(method, toys.cohorts(*toys.HET), SPEC, x)
    silent = dataclasses.replace(method, homogeneous=False)
    with refused("'toy16'", "['net']['body']['in']", "(6, 16)", "(6, 8)"):
        check_cohorts(silent, toys.cohorts(*toys.HET), SPEC, x)


def test_fedprox_adds_a_gradient_of_mu_times_the_way_gone():
    params, down = BASE.init_client(toys.net(8), KEY)[0], begun(BASE)
    both = (on_batch(m, down)[1] for m in (make("fedprox", mu=0.3), BASE))
    term = jax.tree.map(jnp.subtract, *both)
    want = jax.tree.map(lambda w, g: 0.3 * (w - g), params, down)
    assert toys.gap(term, want) < 1e-6


def uploads(method, down, after, steps_K, size_K):
    """Returns the uploads of clients with parameters `after` after training."""

    def one(params, steps, size):
        me = client(params, (), jnp.zeros(())).replace(steps=steps)
        data = Data(None, Shard(None, size))
        return method.upload(None, None, me, data, down, None)[0]

    return jax.vmap(one)(after, jnp.asarray(steps_K), jnp.asarray(size_K))


SGD = {"name": "sgd", "learning_rate": 0.05, "momentum": 0.9, "schedule": "constant"}
SGD |= {"weight_decay": 0.0, "clip_norm": 0.0}


def test_the_amount_is_what_unit_gradients_move_sgd_by():
    """Steps of optax on w and FedProx's term, which is in the loss and pulls back."""

    def check(rho, mu):
        opt = build_optimizer(SimpleNamespace(**SGD | {"momentum": rho}))
        grads = jax.jit(jax.grad(lambda w: w + mu / 2 * w**2))
        w, state = jnp.zeros(()), opt.init(jnp.zeros(()))
        for _ in range(40):
            move, state = opt.update(grads(w), state, w)
            w += move
        a = fednova.normalising_factor(40, fednova.LocalDescent(0.05, rho), mu)
        np.testing.assert_allclose(0.05 * a, -w, rtol=1e-5)

    check_every(product((0.0, 0.7, 0.9), (0.0, 0.1, 2.0)), check)


def test_fednova_weighs_clients_by_their_steps():
    """The mean of changes per step, times the mean of the steps; of a_i if mu > 0."""
    method, down = make("fednova"), {"w": jnp.ones(3)}
    after = {"w": jnp.float32([[0, 1, 2], [1, 1, 1]])}
    server = fednova.FedNovaState(down, {"w": jnp.zeros(3)})
    up = uploads(method, down, after, [4, 0], [10, 90])
    alone = uploads(method, down, jax.tree.map(lambda a: a[:1], after), [4], [10])
    both, one = (method.update(None, server, u, None).params for u in (up, alone))
    assert toys.gap(both, one) == 0 and toys.gap(one, {"w": after["w"][0]}) < 1e-6

    state, share_K = begun(method), np.array([0.25, 0.75])
    after = drawn(state.params)
    heavy = fednova.LocalDescent(0.05, 0.9)
    for mu, descent in ((0.0, fednova.PLAIN_SGD), (0.5, heavy)):
        method = make("fednova", mu=mu, descent=descent)
        up = uploads(method, state.params, after, [2, 6], [5, 15])
        got = method.update(None, state, up, None).params
        length_K = [float(fednova.normalising_factor(n, descent, mu)) for n in (2, 6)]

        def by_hand(w, each, length_K=length_K):
            delta = [(w - w_i) / n for w_i, n in zip(each, length_K, strict=True)]
            return w - share_K @ length_K * np.tensordot(share_K, np.stack(delta), 1)

        assert toys.gap(jax.tree.map(by_hand, state.params, after), got) < 1e-5


def test_server_momentum_goes_on_in_the_last_direction():
    method = make("fednova", server_momentum=0.5)
    state = begun(method)
    up = uploads(method, state.params, drawn(state.params), [2, 6], [5, 15])
    once = method.update(None, state, up, None)
    twice = method.update(None, once, up, None)
    want = jax.tree.map(lambda a: 1.5 * a, once.step)
    assert toys.gap(twice.step, want) < 1e-5
    moved = jax.tree.map(jnp.subtract, once.params, twice.params)
    assert toys.gap(moved, twice.step) < 1e-5


def test_fednova_follows_the_configured_optimiser_or_refuses_it():
    def descent(between="restart", mu=0.1, **changes):
        given = SimpleNamespace(**SGD | changes)
        name, one_rate = f"fednova with mu={mu}", mu != 0
        return fednova.local_descent(given, between, name, one_rate=one_rate)

    assert descent() == descent(mu=0.0, schedule="cosine") == (0.05, 0.9)
    for wrong, words in (
        ({"name": "adam", "momentum": 0.0}, ["'adam': set it to sgd"]),
        ({"between": "keep"}, ["momentum=0.9 ", "'keep': set it to restart"]),
        ({"schedule": "cosine"}, ["mu=0.1 ", "'cosine': set it to constant"]),
    ):
        with refused(*words):
            descent(**wrong)

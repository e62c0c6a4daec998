"""FedAvg, FedProx and FedNova: identities, formulas, refusals."""

import dataclasses
import functools
from itertools import product
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from support import averaging, toys
from support.averaging import ALIKE, BASE, FRAME, SPEC, begun, by_size, drawn, make, run
from support.every import check_every, every

from jaxproto import config, models
from jaxproto.config.optimizers import build_local_training, build_optimizer
from jaxproto.config.presets import DATASETS
from jaxproto.errors import UserError
from jaxproto.experiment import build, shape_checks
from jaxproto.methods import fednova
from jaxproto.methods.fedavg import FedAvgUpload
from jaxproto.methods.local import local
from jaxproto.types import Batch, Client, Data, Shard


def test_the_global_network_is_the_mean_weighted_by_examples_of_what_arrives():
    """A lost upload is zeros, also its size; without any the network stays."""
    r = run(BASE)
    want = jax.tree.map(by_size, *[r.params[i] for i in range(6)])
    assert toys.gap(want, r.server) < 1e-6
    old, params = begun(BASE), drawn(begun(BASE))
    for sizes, want in (([7, 0], jax.tree.map(lambda a: a[0], params)), ([0, 0], old)):
        here_K = np.sign(sizes)
        sent = jax.tree.map(lambda a, h=here_K: (a.T * h).T, params)
        got = BASE.update(None, old, FedAvgUpload(sent, jnp.asarray(sizes)), None)
        assert toys.gap(got, want) < 1e-6


def test_fedavg_of_one_client_is_local_training_from_the_same_start():
    def init_client(net, key):
        start = BASE.init_server(net, jax.random.key(3))
        return start, *BASE.init_client(net, key)[1:]

    shared = dataclasses.replace(local(SPEC), init_client=init_client)
    one, other = (run(m, 3, sampler=toys.only(4)) for m in (BASE, shared))
    assert toys.gap(one.params[4], other.params[4]) < 1e-6
    assert toys.gap(one.server, one.params[4]) < 1e-6


def test_both_networks_are_evaluated_and_one_architecture_is_asked_for():
    """The message names method, cohorts and what to do, or cohort, leaf and shapes."""
    net, key, zero = toys.net(8), jax.random.key(0), jnp.zeros(())

    def rules(method, x):
        params, norm, memory = method.init_client(net, key)
        client = Client(params, norm, (), memory, zero, zero, zero)
        down = method.broadcast(method.init_server(net, key))
        return method.predict(net, client, x, down)

    x = jax.ShapeDtypeStruct((3, toys.INPUT), jnp.float32)
    for name in FRAME:
        found = jax.eval_shape(functools.partial(rules, make(name)), x)
        assert set(found) - {"global"} == {"head", "received"}, name
        method = dataclasses.replace(make(name), check_input=lambda x: None, name=name)
        words = f"{name} averages networks, .* 2: toy8, toy16. .*model.group=toy8, or"
        with pytest.raises(UserError, match=words):
            shape_checks.check_cohorts(method, toys.cohorts(*toys.HET), SPEC, x)
        silent = dataclasses.replace(method, homogeneous=False)
        with pytest.raises(UserError) as e:
            shape_checks.check_cohorts(silent, toys.cohorts(*toys.HET), SPEC, x)
        for word in ("'toy16'", "['net']['body']['in']", "(6, 16)", "(6, 8)"):
            assert word in str(e.value)
        shape_checks.check_cohorts(method, toys.cohorts(*toys.HOM), SPEC, x)


def test_fedprox_is_fedavg_and_a_gradient_of_mu_times_the_way_gone():
    assert toys.gap(run(make("fedprox", mu=0.0)).server, run(BASE).server) == 0
    net, mu = toys.net(8), 0.3
    params, norm, _ = BASE.init_client(net, jax.random.key(0))
    down = BASE.init_server(net, jax.random.key(1))
    examples, _ = toys.pool_and_rows()
    batch = Batch(examples.x[:6], examples.y[:6], jnp.ones(6))

    def grads(method):
        loss = jax.jit(lambda p: method.loss(net, p, norm, batch, down, None)[0])
        return jax.grad(loss)(params)

    both = grads(make("fedprox", mu=mu)), grads(BASE)
    term = jax.tree.map(jnp.subtract, *both)
    want = jax.tree.map(lambda w, g: mu * (w - g), params, down)
    assert toys.gap(term, want) < 1e-6


def uploads(method, down, after, steps_K, size_K):
    """Returns the uploads of clients with parameters `after` after training."""

    def one(params, steps, size):
        zero = jnp.zeros(())
        client = Client(params, (), (), (), zero, zero, steps)
        data = Data(None, Shard(None, size))
        return method.upload(None, None, client, data, down, None)[0]

    return jax.vmap(one)(after, jnp.asarray(steps_K), jnp.asarray(size_K))


STEPS = {"name": "sgd", "learning_rate": 0.05, "weight_decay": 0.0, "clip_norm": 0.0}


def test_the_amount_is_what_unit_gradients_move_sgd_by():
    """Steps of optax on w and FedProx's term, which is in the loss and pulls back.

    By hand, five with momentum: c_t is 1, 1.9, 2.71, 3.439, 4.0951, in all 13.1441.
    """

    def check(rho, mu):
        opt = build_optimizer(SimpleNamespace(**STEPS, momentum=rho))
        grads = jax.jit(jax.grad(lambda w: w + mu / 2 * w**2))
        w, state = jnp.zeros(()), opt.init(jnp.zeros(()))
        for _ in range(40):
            move, state = opt.update(grads(w), state, w)
            w += move
        a = fednova.normalising_factor(40, fednova.LocalDescent(0.05, rho), mu)
        np.testing.assert_allclose(0.05 * a, -w, rtol=1e-5)

    check_every(product((0.0, 0.7, 0.9), (0.0, 0.1, 2.0)), check)
    a = fednova.normalising_factor(5, fednova.LocalDescent(0.01, 0.9))
    np.testing.assert_allclose(a, 13.1441, rtol=1e-6)


def test_fednova_weighs_clients_by_their_steps():
    """The mean of changes per step, times the mean of the steps."""
    method, down = make("fednova"), {"w": jnp.ones(3)}
    after = {"w": jnp.float32([[0, 1, 2], [1, 1, 1]])}
    server = fednova.FedNovaState(down, {"w": jnp.zeros(3)})
    up = uploads(method, down, after, [4, 0], [10, 90])
    alone = uploads(method, down, jax.tree.map(lambda a: a[:1], after), [4], [10])
    both, one = (method.update(None, server, u, None).params for u in (up, alone))
    assert toys.gap(both, one) == 0 and toys.gap(one, {"w": after["w"][0]}) < 1e-6

    state, tau_K, share_K = begun(method), np.array([2, 6]), np.array([0.25, 0.75])
    after = drawn(state.params)
    up = uploads(method, state.params, after, tau_K, [5, 15])
    got = method.update(None, state, up, None).params

    def by_hand(w, each):
        delta = [(w - w_i) / tau for w_i, tau in zip(each, tau_K, strict=True)]
        return w - (share_K @ tau_K) * np.tensordot(share_K, np.stack(delta), 1)

    assert toys.gap(jax.tree.map(by_hand, state.params, after), got) < 1e-5
    plain = FedAvgUpload(after, jnp.asarray([5, 15]))
    assert toys.gap(BASE.update(None, state.params, plain, None), got) > 0.1


def test_fednova_with_equal_steps_is_fedavg_or_fedprox():
    """Trained with momentum."""
    options = dataclasses.replace(ALIKE, opt=optax.sgd(0.05, momentum=0.9))
    nova = make("fednova", mu=0.5, descent=fednova.LocalDescent(0.05, 0.9))
    nova, prox = (run(m, local=options) for m in (nova, make("fedprox", mu=0.5)))
    assert {int(c.steps) for c in nova.clients.values()} == {3}
    assert toys.gap(nova.server.params, prox.server) < 1e-5
    nova = run(make("fednova"), local=ALIKE)
    assert toys.gap(nova.server.params, run(BASE, local=ALIKE).server) < 1e-5


def test_a_proximal_term_does_not_shorten_the_servers_step():
    """The server moves by the mean of the clients' a_i: no jump at mu > 0."""
    start = {"w": jnp.zeros(3)}
    state = fednova.FedNovaState(start, start)
    for mu in (1e-9, 0.5):
        descent = fednova.LocalDescent(0.05, 0.9)
        each = [fednova.normalising_factor(n, descent, mu) for n in (4, 9)]
        after = {"w": -jnp.outer(jnp.stack(each), jnp.ones(3))}
        method = make("fednova", mu=mu, descent=descent)
        up = uploads(method, start, after, [4, 9], [5, 5])
        got = method.update(None, state, up, None).params["w"]
        np.testing.assert_allclose(got, -np.mean(each), rtol=1e-5)


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
    nobody = jax.tree.map(jnp.zeros_like, up)
    assert toys.gap(method.update(None, twice, nobody, None), twice) == 0


def test_fednova_follows_the_configured_optimiser_or_refuses_it():
    def descent(between="restart", mu=0.1, **changes):
        given = SimpleNamespace(**averaging.SGD | changes)
        name, one_rate = f"fednova with mu={mu}", mu != 0
        return fednova.local_descent(given, between, name, one_rate=one_rate)

    assert descent() == descent(mu=0.0, schedule="cosine") == (0.1, 0.9)
    for wrong, words in (
        ({"name": "adam", "momentum": 0.0}, r"'adam': set it to sgd"),
        ({"between": "keep"}, r"momentum=0.9 .* 'keep': set it to restart"),
        ({"schedule": "cosine"}, r"mu=0.1 .* 'cosine': set it to constant"),
    ):
        with pytest.raises(UserError, match=words):
            descent(**wrong)


def test_every_data_set_has_one_network_and_the_protocol_is_a_variant():
    for name, dataset in product(FRAME, DATASETS):
        group = config.load(f"configs/{name}.py:{dataset}").model.group
        assert len(models.group_members(group)) == 1, (name, dataset)
    for name in FRAME:
        c = config.load(f"configs/{name}.py:cifar10,refprotofl")
        got = c.data.clients, c.data.alpha, c.model.group, c.local.batch_size, c.rounds
        assert got == (10, 0.5, "resnet18", 64, 50) and not c.data.pool, name
        assert (c.optimizer.momentum, c.optimizer.weight_decay) == (0.9, 1e-4), name


RELEASED = {  # method -> clients, rounds, epochs, batch, momentum, rate in round 3
    "fedprox": (20, 200, 20, 10, 0.0, 0.01),
    "fednova": (16, 100, 2, 32, 0.9, 0.02),
    "fednh": (100, 200, 5, 64, 0.9, 0.01 * 0.99**3),
    "feduv": (10, 100, 10, 128, 0.9, 0.005 * (1 + np.cos(0.03 * np.pi))),
    "vhl": (10, 1000, 1, 128, 0.9, 0.01 * 0.992**3),
    "fast": (100, 1000, 1, 128, 0.9, 0.01),
}


@every(RELEASED.items())
def test_the_released_training_is_a_variant(name, want):
    c = config.load(f"configs/{name}.py:cifar10,code")
    config.check(c)
    build.build_sampler(c.participation)
    rate = c.optimizer.learning_rate * build_local_training(c).at_round(3).factor
    local = (c.local.epochs, c.local.batch_size, c.optimizer.momentum)
    got = (c.data.clients, c.rounds, *local, float(rate))
    np.testing.assert_allclose(got, want, rtol=1e-5)
    if name == "fednh":  # ProtoNorm's fork starts every network at scale 1
        c = config.load("configs/fednh.py:cifar10,resnet")
        assert (c.model.group, c.method.scale) == ("resnet18_gn", 20.0)
        assert config.load("configs/fednh.py:cifar10").method.scale == 1.0

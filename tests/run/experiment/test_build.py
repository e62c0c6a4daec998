"""From a configuration to networks and optimisers."""

import math
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import optax

from jaxproto import config
from jaxproto.config import optimizers
from jaxproto.experiment import build


def moved(fields, param, grad, steps):
    """The parameter after some steps along one gradient."""
    settings = {**config.default_config().optimizer.to_dict(), **fields}
    opt = optimizers.build_optimizer(SimpleNamespace(**settings))
    state = opt.init(param)
    for _ in range(steps):
        move, state = opt.update(grad, state, param)
        param = optax.apply_updates(param, move)
    return np.asarray(param)


def test_a_schedule_is_a_factor_for_each_round():
    for fields, want in (
        ({"schedule": "exponential", "decay": 0.992}, [1, 0.992, 0.992**9]),
        ({"schedule": "cosine"}, [1, (1 + math.cos(math.pi / 10)) / 2, 0.0244717]),
    ):
        made = config.default_config().optimizer
        made.update(fields)
        found = optimizers.build_schedule(made, rounds=10)
        assert np.allclose([found(jnp.int32(r)) for r in (0, 1, 9)], want)


def test_the_default_is_plain_sgd_and_clipping_comes_before_decay_before_momentum():
    """v <- m v + (g / max(1, |g|) + w p), p <- p - eta v, as PyTorch's SGD."""
    p, g = np.array([1.0, -2.0], np.float32), np.array([3.0, 4.0], np.float32)
    assert np.allclose(moved({}, p, g, 1), p - 0.01 * g)
    want, v = p.copy(), 0
    for _ in range(3):
        v = 0.9 * v + (g / 5 + 0.1 * want)
        want = want - 0.5 * v
    fields = {"momentum": 0.9, "weight_decay": 0.1, "clip_norm": 1.0}
    found = moved({**fields, "learning_rate": 0.5}, p, g, 3)
    assert np.allclose(found, want, atol=1e-6)


def test_clients_take_the_networks_of_a_group_in_turn_as_many_as_there_are():
    c = config.experiment("protonorm", "digits")
    c.model.group, c.data.clients, c.data.alpha = "mlp,cnn4_d", 5, 10.0
    exp = build.experiment(c, "cpu")
    found = [(k.name, sorted(k.ids)) for k in exp.cohorts]
    assert found == [("mlp", [0, 2, 4]), ("cnn4_d", [1, 3])]
    for cohort, shards in zip(exp.cohorts, exp.train, strict=True):
        for k, i in enumerate(cohort.ids):
            rows = np.asarray(shards.index[k])[: int(shards.size[k])]
            assert np.array_equal(rows, exp.partition.train[i])
    c.data.clients = 1
    assert [k.name for k in build.experiment(c, "cpu").cohorts] == ["mlp"]

"""From a configuration to networks, optimisers and forms."""

import math
from itertools import product
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import optax
from support import fast_jit
from support.every import check_every
from support.refusal import refused

from jaxproto import config
from jaxproto.config import optimizers
from jaxproto.execution import ClientStages
from jaxproto.experiment import build, cohorts


def small(**fields):
    made = config.experiment("protonorm", "digits")
    made.update_from_flattened_dict({"model.group": "mlp,cnn4_d", **fields})
    return made


def moved(fields, param, grad, steps):
    """The parameter after some steps along one gradient."""
    settings = {**config.default().optimizer.to_dict(), **fields}
    opt = optimizers.build_optimizer(SimpleNamespace(**settings))
    state = opt.init(param)
    for _ in range(steps):
        move, state = opt.update(grad, state, param)
        param = optax.apply_updates(param, move)
    return np.asarray(param)


def test_a_schedule_is_a_factor_for_each_round_and_an_unused_decay_is_refused():
    def schedule(**fields):
        made = config.default().optimizer
        made.update(fields)
        return optimizers.build_schedule(made, rounds=10)

    for fields, want in (
        ({}, [1, 1, 1]),
        ({"schedule": "exponential", "decay": 0.992}, [1, 0.992, 0.992**9]),
        ({"schedule": "cosine"}, [1, (1 + math.cos(math.pi / 10)) / 2, 0.0244717]),
    ):
        found = schedule(**fields)
        assert np.allclose([found(jnp.int32(r)) for r in (0, 1, 9)], want)
    with refused("decay is 0.9, but ", " 'constant' does not"):
        schedule(decay=0.9)


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
    c = small(**{"data.clients": 5, "data.alpha": 10.0})
    exp = build.experiment(c, "cpu")
    found = [(k.name, sorted(k.ids)) for k in exp.cohorts]
    assert found == [("mlp", [0, 2, 4]), ("cnn4_d", [1, 3])]
    for cohort, shards in zip(exp.cohorts, exp.train, strict=True):
        for k, i in enumerate(cohort.ids):
            rows = np.asarray(shards.index[k])[: int(shards.size[k])]
            assert np.array_equal(rows, exp.partition.train[i])
    alone = build.experiment(small(**{"data.clients": 1}), "cpu")
    assert [k.name for k in alone.cohorts] == ["mlp"]


def test_a_mode_takes_every_step_of_any_number_of_them():
    """Each client counts its own steps; padded ones are counted by `steps`."""
    stages = ClientStages(
        start=lambda own: (jnp.zeros((), jnp.int32), own),
        num_steps=lambda n: n[1],
        step=lambda own, s, n: (n[0] + 1, own),
        end=lambda n, own: (n[0], n[0]),
    )

    def check(choice, platform, steps_K):
        mode = cohorts.build_mode(choice, platform, steps_K)
        each, total = fast_jit.jit(mode.train(stages))(jnp.asarray(steps_K))
        assert each.tolist() == steps_K and total == sum(steps_K)
        assert mode.steps(steps_K) >= sum(steps_K)

    modes = ("auto", "one", "all", "2"), ("cpu", "gpu"), ([5, 3, 1], [0, 0, 0])
    check_every(product(*modes), check)

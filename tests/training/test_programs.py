"""Compiled programs depend on the settings of a run and not on its seed."""

import jax
import numpy as np
import pytest
from support import attacked

from jaxproto.experiment import build
from jaxproto.training import client_store, compiler, programs, rounds


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """A small federation, its programs, and its states for two seeds."""
    file = attacked.data(tmp_path_factory.mktemp("data") / "toy.npz")
    c = attacked.small("fedproto", file)
    exp = build.experiment(c, "cpu")
    examples = build.examples(exp.dataset)
    compiled, _ = compiler.compile_all(exp, examples)
    starting = programs.with_floats(compiled, exp.floats)
    states = [programs.init(exp, seed, starting) for seed in (0, 5)]
    return exp, examples, compiled, states


def after_a_round(exp, examples, compiled, seed, state, r=0):
    """Parameters of the clients."""
    mine = state._replace(clients=jax.tree.map(jax.numpy.copy, state.clients))
    bound = programs.with_floats(compiled, exp.floats)
    store = client_store.DeviceStore(exp, bound)
    work = rounds.RoundEnvironment(exp, examples, bound, seed, store)
    end, _ = rounds.one_round(work, r, mine)
    return jax.tree.leaves([c.params for c in end.clients])


def test_programs_made_with_one_seed_are_those_of_another(started):
    exp, examples, compiled, states = started
    own, _ = compiler.compile_all(exp, examples)
    borrowed = after_a_round(exp, examples, compiled, 5, states[1])
    for a, b in zip(
        borrowed, after_a_round(exp, examples, own, 5, states[1]), strict=True
    ):
        assert np.array_equal(a, b)


@pytest.mark.parametrize(("seed", "r"), [(5, 0), (0, 1)])
def test_seed_and_round_decide_the_order_of_batches(started, seed, r):
    *fixed, states = started
    one = after_a_round(*fixed, 0, states[0])
    again = after_a_round(*fixed, 0, states[0])
    other = after_a_round(*fixed, seed, states[0], r)
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))

"""A run that does not fit runs fewer clients at a time."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxproto import config, execution
from jaxproto.experiment import build, cohorts
from jaxproto.training import compiler, programs

pytestmark = pytest.mark.long  # as a whole; `.ci/run` has it


def test_too_little_memory_means_fewer_clients_at_a_time_and_the_same_numbers(
    monkeypatch,
):
    """From the form of accelerators; what never fits ends at one client at a time."""
    c = config.experiment("local", "digits")
    c.model.group, c.data.clients, c.clients_at_once = "mlp", 8, "all"
    exp = build.experiment(c, "cpu")
    examples = build.examples(exp.dataset)
    _, compiled, _, need = compiler.compile_to_fit(exp, examples, math.inf)
    state = programs.init(exp, 0, programs.with_floats(compiled, exp.floats))
    held = sum(a.nbytes for a in jax.tree.leaves((state, examples)))
    assert need >= held and cohorts.device_memory() is None
    smaller, fewer, _, less = compiler.compile_to_fit(exp, examples, need - 1)
    assert less < need
    assert smaller.cohorts[0].mode != exp.cohorts[0].mode

    def train(p):
        p = programs.with_floats(p, exp.floats)
        mine = jax.tree.map(jnp.copy, state.clients[0])  # the call takes its buffers
        context = programs.round_context(0, 0)
        participants = p.participate(context, state.server)
        down = p.broadcast(state.server).message
        inputs = programs.RoundArguments(context, participants, down)
        args = (inputs, mine, examples, exp.train[0])
        return jax.tree.leaves(p.train[0](*args)[0].params)

    for a, b in zip(train(compiled), train(fewer), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-5)
    asked, one = [], execution.one_by_one()
    monkeypatch.setattr(execution, "in_chunks", lambda n: asked.append(n) or one)
    compiler.compile_to_fit(exp, examples, 1)
    assert asked == [4, 2, 1]

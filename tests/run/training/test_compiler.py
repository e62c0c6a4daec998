"""A run that does not fit runs fewer clients at a time."""

import math

import jax
import pytest

from jaxproto import config
from jaxproto.experiment import build, cohorts
from jaxproto.round import execution
from jaxproto.training import compiler, programs


@pytest.mark.long
def test_too_little_memory_means_fewer_clients_at_a_time(monkeypatch):
    """From the form of accelerators; what never fits ends at one client at a time."""
    c = config.experiment("local", "digits")
    c.model.group, c.data.clients, c.clients_at_once = "mlp", 8, "all"
    exp = build.experiment(c, "cpu")
    examples = build.examples(exp.dataset)
    need = compiler.compile_to_fit(exp, examples, math.inf)[-1]
    arrays = jax.tree.leaves((programs.shapes(exp, 0), examples))
    assert need >= sum(a.size * a.dtype.itemsize for a in arrays)
    assert cohorts.device_memory() is None
    smaller, *_, less = compiler.compile_to_fit(exp, examples, need - 1)
    assert less < need
    assert smaller.cohorts[0].mode != exp.cohorts[0].mode
    asked, one = [], execution.one_by_one()
    monkeypatch.setattr(execution, "in_chunks", lambda n: asked.append(n) or one)
    compiler.compile_to_fit(exp, examples, 1)
    assert asked == [4, 2, 1]

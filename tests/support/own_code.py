"""A method of the user whose code changes between two runs, as a cell of a notebook."""

import jax.numpy as jnp
import pytest

from jaxproto.methods import METHODS
from jaxproto.storage import records
from support.quick import without_pictures
from support.runs import digits

CELL = """
import dataclasses
from jaxproto.methods.local import local
SCALE = 1.0
def mine(spec):
    base = local(spec)
    def loss(*args):
        value, aux = base.loss(*args)
        return SCALE * value, aux
    return dataclasses.replace(base, loss=loss)
"""


def cell(scale=1.0):
    """A method, defined in a cell of a notebook; `scale` is a value in it."""
    scope = {"__name__": "__main__"}
    exec(compile(CELL.replace("1.0", str(scale), 1), "<cell>", "exec"), scope)
    return scope["mine"]


@pytest.fixture
def define(monkeypatch):
    """Runs the cell of the method, with another value."""
    without_pictures(monkeypatch)
    return lambda scale: monkeypatch.setitem(METHODS, "mine", cell(scale))


def mine(**fields):
    return digits("mine", **{"data.clients": 2, "checkpoint_every": 1, **fields})


def losses(path):
    return [row["loss"] for row in records.read(path / "metrics.jsonl")]


def half(decay, rounds):
    return lambda r: jnp.where(r < rounds / 2, 1.0, 0.01)


def mine_of(method, **fields):
    return digits(method, **{"data.clients": 2, **fields})

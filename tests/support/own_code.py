"""A method of the user whose code changes between two runs, as a cell of a notebook."""

import jax.numpy as jnp
import pytest
from rich.console import Console

import jaxproto
from jaxproto.methods import METHODS
from jaxproto.storage import records
from jaxproto.training import xla_cache
from support.refusal import refused
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
    return lambda scale: monkeypatch.setitem(METHODS, "mine", cell(scale))


def mine(**fields):
    return digits("mine", **{"data.clients": 2, "checkpoint_every": 1, **fields})


def losses(path):
    return [row["loss"] for row in records.read(path / "metrics.jsonl")]


def half(decay, rounds):
    return lambda r: jnp.where(r < rounds / 2, 1.0, 0.01)


def mine_of(method, **fields):
    return digits(method, **{"data.clients": 2, **fields})


def check_trains_anew(field, table, make, tmp_path, monkeypatch):
    """An edited entry of a registry: another folder, no program of the old one."""
    monkeypatch.setattr(xla_cache, "enable_xla_cache", lambda: tmp_path / "jax")
    c, found = digits("fedproto", **{"rounds": 2}), []
    for value in (1.0, 0.0):
        monkeypatch.setitem(table, "own", make(value))
        c.update_from_flattened_dict({field: "own"})
        folder = tmp_path / str(value)
        jaxproto.run(c, folder, Console(quiet=True), cache=True)
        found.append(losses(folder))
        if value == 1.0:
            monkeypatch.setitem(table, "own", make(0.5))
            with refused("holds a run of other code: ", "'own' (Python "):
                jaxproto.run(c, folder, Console(quiet=True), cache=True)
    assert found[0] != found[1]
    assert not (tmp_path / "jax" / "traced").exists()

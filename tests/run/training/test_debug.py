"""The debug mode: a method's functions get arrays, and nothing is written."""

import dataclasses
from pathlib import Path

import jax
import pytest
from support import attacked
from support.commands import called

import jaxproto
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
from jaxproto.training import debug

SPIED = ("broadcast", "receive", "loss", "upload", "update", "predict")


@pytest.fixture
def calls(monkeypatch):
    """Calls of a method named `spied`: its functions print, and tell of tracers."""
    told = {name: [] for name in SPIED}

    def spy(name, f):
        def call(*args):
            traced = (isinstance(a, jax.core.Tracer) for a in jax.tree.leaves(args))
            told[name].append(any(traced))
            print(f"inside {name}")  # noqa: T201 (this is what users do)
            return f(*args)

        return call

    def spied(spec):
        method = METHODS["fedavg"](spec)
        spies = {name: spy(name, getattr(method, name)) for name in SPIED}
        return dataclasses.replace(method, **spies)

    monkeypatch.setitem(METHODS, "spied", spied)
    return told


@pytest.mark.long
def test_a_method_prints_and_gets_arrays_and_no_file_is_written(
    calls, capsys, tmp_path, monkeypatch
):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    c = attacked.small("spied", attacked.data(tmp_path / "toy.npz"), local__epochs=3)
    before = c.to_json()
    record = jaxproto.debug(c)
    assert record["participants"] == 1 and c.to_json() == before
    assert not [*Path().iterdir()]
    # the shapes of its sums, then two batches under jax.grad
    assert calls.pop("loss") == [False, True, True]
    assert all(calls.values()) and not any(map(any, calls.values())), calls
    lines = capsys.readouterr().out.splitlines()
    parts = [
        *("broadcast:", "inside broadcast", "local training and upload:"),
        *("inside receive", "inside loss", "inside upload"),
        *("  client.params.net.head.bias  float32[1,3]", "  report.loss  float32[1]"),
        *("aggregation:", "inside update", "  server.net.head.bias  float32[3]"),
        *("evaluation:", "inside predict", "  sums.head.accuracy.1  float32[1]"),
    ]
    at = 0
    for part in parts:
        at = lines.index(part, at)


@pytest.mark.long
def test_a_method_may_have_two_exchanges(capsys, tmp_path):
    made = attacked.small("refprotofl", attacked.data(tmp_path / "toy.npz"))
    assert jaxproto.debug(made)["participants"] == 1
    assert "message before training:" in capsys.readouterr().out


def test_a_name_is_that_of_a_configuration():
    with pytest.raises(UserError, match="Did you mean"):
        jaxproto.debug("protnorm")


def test_the_flag_debugs_the_configuration(monkeypatch):
    given = []
    monkeypatch.setattr(debug, "debug", given.append)
    assert not called("run", "--config=protonorm", "--debug", "--config.rounds=3")
    assert [c.rounds for c in given] == [3]

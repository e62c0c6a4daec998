"""Sweeps and loaded runs of the user's code that changes."""

import pytest
from support import own_code
from support.own_code import half, losses, mine, mine_of
from support.refusal import refused
from support.runs import run
from support.sweeping import console

import jaxproto
from jaxproto.config import optimizers
from jaxproto.experiment import traced
from jaxproto.storage import workdir
from jaxproto.training import xla_cache

define = own_code.define  # a fixture


AXES = {"seed": [0, 1]}


def cells(result):
    return [cell.path for cell in result.plan.cells]


@pytest.mark.long
def test_cells_of_a_sweep_are_refused_or_go_on_with_same_code(define, tmp_path):
    define(1.0)
    first = jaxproto.sweep(mine(), AXES, tmp_path, console())
    assert len(first.summaries) == 2
    define(0.0)
    with refused("the cell seed=0 cannot run", "holds a run of other code: method 'mi"):
        jaxproto.sweep(mine(), AXES, tmp_path, console())
    again = jaxproto.sweep(mine(rounds=2), AXES, tmp_path, console(), same_code=True)
    assert cells(again) == cells(first)
    assert all(losses(path)[1] == 0 for path in cells(first))


@pytest.mark.long
def test_cells_in_default_folders_go_to_others(define, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    define(1.0)
    first = jaxproto.sweep(mine(), AXES, "", console())
    define(0.0)
    again = jaxproto.sweep(mine(), AXES, "", console())
    assert not {*cells(first)} & {*cells(again)}
    assert all(losses(path) == [0.0] for path in cells(again))


def test_a_loaded_run_of_other_code_says_so_when_it_is_evaluated(
    define, tmp_path, monkeypatch
):
    said = []
    monkeypatch.setattr(xla_cache.logging, "warning", lambda _, text: said.append(text))
    define(1.0)
    run(mine(), tmp_path / "a")
    jaxproto.load(tmp_path / "a").evaluate("head")
    assert not said
    define(0.0)
    saved = jaxproto.load(tmp_path / "a")
    assert not said
    saved.evaluate("head")
    (text,) = said
    assert text.startswith(f"{tmp_path}/a is a run of other code: method 'mine' (")


@pytest.mark.long
def test_a_schedule_that_uses_the_number_of_rounds_is_neither_extended_nor_shared(
    define, tmp_path, monkeypatch
):
    """Not in a folder, not by programs of another length, not by cells of a sweep."""
    monkeypatch.setitem(optimizers.SCHEDULES, "half", half)
    fields = {"optimizer.schedule": "half"}
    short, long = (mine_of("local", rounds=n, **fields) for n in (2, 4))
    assert traced.program_settings(short) != traced.program_settings(long)
    workdir.save_config(tmp_path, short)
    with refused("With optimizer.schedule=half every round depends on `rounds`"):
        workdir.check_config(tmp_path, long)
    straight = jaxproto.run(long, tmp_path / "long", console())
    axes = {"rounds": [2, 4], "optimizer.schedule": ["half"]}
    result = jaxproto.sweep(short, axes, tmp_path / "sweep", console())
    assert len(result.plan.groups) == 2
    assert losses(result.plan.cells[1].path) == losses(tmp_path / "long")
    assert straight["rounds"] == 4

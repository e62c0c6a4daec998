"""Sweeps that train: numbers, folders, resuming, and how often something compiles."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import attacked
from support.attacked import end
from support.refusal import refused
from support.runs import records
from support.runs import small as spiral
from support.sweeping import console

from jaxproto import METHODS
from jaxproto.lab.sweeps import SweepOptions, batched, outputs, sweep
from jaxproto.training import runner
from jaxproto.training.programs import build_programs

AXES = {"seed": [0, 1], "method.lam": [1.0, 10.0]}


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Makes configurations of two clients that are evaluated and saved each round."""
    file = attacked.data(tmp_path_factory.mktemp("data") / "toy.npz")
    return lambda **fields: attacked.small("fedproto", file, **fields)


@pytest.fixture(scope="module", autouse=True)
def no_pictures_of_sweeps():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "pictures", lambda *_: [])
        yield


@pytest.fixture(scope="module")
def swept(small, tmp_path_factory):
    """A sweep of four cells in threads, its folder and what was compiled for it."""
    folder, programs = tmp_path_factory.mktemp("sweep"), []

    def compiling(exp, examples, *rest):
        made = real(exp, examples, *rest)
        programs.append(len(jax.tree.leaves(made[0])))
        return made

    real = runner.compiler.compile_all
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner.compiler, "compile_all", compiling)
        done = sweep(small(), AXES, folder, console(), SweepOptions("threads"))
    return done, folder, programs


@pytest.fixture
def trained(monkeypatch):
    """The folders of the cells that are trained, not found."""
    found, real = [], runner.train

    def told(start, ready):
        found.append(start.path)
        return real(start, ready)

    monkeypatch.setattr(runner, "train", told)
    return found


def test_every_cell_has_ended_in_the_table_by_programs_compiled_once(swept):
    done, folder, programs = swept
    assert [s["status"] for s in done.summaries.values()] == ["finished"] * 4
    first, _, other_seed, _ = done.plan.cells
    assert end(first.path) != end(other_seed.path)
    rows = (folder / "sweep.csv").read_text().splitlines()
    rules = len(next(iter(done.summaries.values()))["rules"])
    assert len(rows) == 1 + 4 * rules * 2 * 3
    assert "FedProto" in (folder / "compare.md").read_text()
    (group,) = done.plan.groups
    assert programs == [len(jax.tree.leaves(build_programs(group.exp)))]  # one set


def test_a_cell_has_the_bits_of_the_run_alone_which_a_sweep_recognises(
    small, swept, tmp_path, trained, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    cell = swept[0].plan.cells[3]
    alone = Path("runs/fedproto-toy-seed1")
    c = small(seed=1, method__lam=10.0)
    runner.run(c, console=console())
    assert end(tmp_path / alone) == end(cell.path)
    assert trained == [alone]
    done = sweep(c, {"seed": [1]}, console=console())
    assert trained == [alone] and list(done.summaries) == ["seed=1"]
    assert {str(p.parent) for p in done.files} == {"sweeps/fedproto-toy-seed"}


def test_a_begun_cell_of_another_partition_is_refused_and_left_alone(small, tmp_path):
    done = sweep(small(rounds=1), {"seed": [0]}, tmp_path, console())
    indices = done.plan.cells[0].path / "indices.csv"
    indices.write_text("of another partition")
    with refused("the cell seed=0 cannot run", "indices.csv has another partition"):
        sweep(small(rounds=2), {"seed": [0]}, tmp_path, console())
    assert indices.read_text() == "of another partition"


@pytest.mark.long
def test_cells_in_one_program_agree_to_rounding_also_where_the_last_is_filled_up(
    small, swept, tmp_path, monkeypatch
):
    counts, real = [], batched.train

    def train(many, programs, number, *rest):
        counts.append((len(many), number))
        return real(many, programs, number, *rest)

    monkeypatch.setattr(batched, "train", train)
    for at_once, want in (("all", [(4, 4)]), ("3", [(3, 3), (1, 3)])):
        counts.clear()
        how = SweepOptions(at_once)
        again = sweep(small(), AXES, tmp_path / at_once, console(), how)
        assert counts == want
        for mine, theirs in zip(again.plan.cells, swept[0].plan.cells, strict=True):
            rows, wanted = end(mine.path)[0], end(theirs.path)[0]
            for row, one in zip(rows, wanted, strict=True):
                assert row["bytes_up"] == one["bytes_up"]
                np.testing.assert_allclose(row["loss"], one["loss"], rtol=1e-3)
            names = {p.name for p in mine.path.iterdir()}
            assert names == {p.name for p in theirs.path.iterdir()}


@pytest.mark.long
def test_a_diverged_cell_stops_alone(small, tmp_path):
    for form in ("one", "all"):
        axes, told = {"optimizer.learning_rate": [1e30, 0.1]}, console()
        done = sweep(small(rounds=2), axes, tmp_path / form, told, SweepOptions(form))
        assert "1e+30: diverged: round 1: client" in told.file.getvalue()
        lost, well = done.summaries.values()
        assert (lost["status"], well["status"]) == ("diverged", "finished")
        assert "client" in lost["reason"] and well["rounds"] == 2
        assert "diverged" in (tmp_path / form / "sweep.csv").read_text()


@pytest.mark.long
def test_a_batched_sweep_that_looks_for_nan_ends_with_the_same_numbers(tmp_path):
    """The server of ProtoNorm has NaN for "no value" between rounds."""
    cells = []
    for looks in (False, True):
        with jax.debug_nans(looks):
            folder, how = tmp_path / str(looks), SweepOptions("all")
            c = spiral("protonorm", rounds=2)
            cells.append(sweep(c, {"seed": [0, 1]}, folder, console(), how).plan.cells)
    for plain, looked in zip(*cells, strict=True):
        assert records(plain.path) == records(looked.path)


@pytest.mark.long
def test_a_batched_sweep_names_the_line_that_makes_nan(tmp_path, monkeypatch):
    def mine(spec):
        method = METHODS["local"](spec)

        def loss(*args):
            value, aux = method.loss(*args)
            return value + jnp.log(value - 1e6), aux

        return dataclasses.replace(method, loss=loss)

    monkeypatch.setitem(METHODS, "mine", mine)
    line = mine.__code__.co_firstlineno + 5
    named = "program 'train' makes NaN", f"line {line} of {__file__}"
    with jax.debug_nans(True), refused(*named):
        sweep(spiral("mine"), {"seed": [0]}, tmp_path, console(), SweepOptions("all"))

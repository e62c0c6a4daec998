"""Sweeps that train: numbers, folders, resuming, and how often something compiles."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest
from rich.console import Console
from support.attacked import end

import jaxproto
from jaxproto import config
from jaxproto.sweeps import How, sweep, together
from jaxproto.training import runner

AXES = {"seed": [0, 1], "method.lam": [1.0, 10.0]}
ROUNDS = 3


def small(name="fedproto", **changes):
    """Three clients with the smallest network."""
    c = config.experiment(name, "digits")
    c.model.group, c.data.clients, c.rounds = "mlp", 3, ROUNDS
    c.eval_every = c.checkpoint_every = 1
    c.update_from_flattened_dict(changes)
    return c


def quiet():
    return Console(file=io.StringIO())


@pytest.fixture(scope="module", autouse=True)
def no_pictures():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner.pictures, "draw", lambda *_: None)
        yield


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of four cells in threads, its folder and what was compiled for it."""
    folder, programs = tmp_path_factory.mktemp("sweep"), []

    def compiling(exp, examples, *rest):
        made = real(exp, examples, *rest)
        programs.append(len(jax.tree.leaves(made[0])))
        return made

    real = runner.compiler.compile_all
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner.compiler, "compile_all", compiling)
        done = sweep(small(), AXES, folder, quiet(), How("threads"))
    return done, folder, programs


def test_every_cell_has_ended_and_is_in_the_table(swept):
    done, folder, _ = swept
    assert [s["status"] for s in done.summaries.values()] == ["finished"] * 4
    rows = (folder / "sweep.csv").read_text().splitlines()
    rules = len(next(iter(done.summaries.values()))["rules"])
    assert len(rows) == 1 + 4 * rules * 2 * 3
    assert "FedProto" in (folder / "compare.md").read_text()


def test_the_programs_are_compiled_once_for_all_cells(swept):
    done, _, programs = swept
    assert len(done.plan.groups) == 1
    assert programs == [9]  # one set


def test_a_cell_has_the_bits_of_the_run_alone(swept, tmp_path):
    done, *_ = swept
    for cell in done.plan.cells[1:3]:
        runner.run(cell.config, tmp_path / cell.path.name, quiet())
        assert end(tmp_path / cell.path.name) == end(cell.path), cell.name


@pytest.mark.long
def test_cells_as_one_program_agree_to_rounding(swept, tmp_path):
    done, *_ = swept
    again = sweep(small(), AXES, tmp_path, quiet(), How("all"))
    for mine, theirs in zip(again.plan.cells, done.plan.cells, strict=True):
        (rows, _), (want, _) = end(mine.path), end(theirs.path)
        assert [r["bytes_up"] for r in rows] == [r["bytes_up"] for r in want]
        got, loss = ([r["loss"] for r in part] for part in (rows, want))
        np.testing.assert_allclose(got, loss, rtol=1e-3)
        names = {p.name for p in mine.path.iterdir()}
        assert names == {p.name for p in theirs.path.iterdir()}


@pytest.mark.long
def test_a_number_at_once_fills_the_last_program_up(swept, tmp_path, monkeypatch):
    counts = []
    real = together.train
    monkeypatch.setattr(
        together,
        "train",
        lambda m, p, n, *a: counts.append((len(m), n)) or real(m, p, n, *a),
    )
    axes = {"seed": [0, 1, 2], "method.lam": [10.0]}
    done = sweep(small(), axes, tmp_path, quiet(), How("2"))
    assert counts == [(2, 2), (1, 2)]
    first = swept[0].plan.cells[1].path  # seed 0, lam 10: the same configuration
    got, want = (
        [r["loss"] for r in end(p)[0]] for p in (done.plan.cells[0].path, first)
    )
    np.testing.assert_allclose(got, want, rtol=1e-3)


def test_values_that_are_added_run_alone(swept, monkeypatch):
    done, folder, _ = swept
    before = {
        c.path: (c.path / "summary.json").stat().st_mtime_ns for c in done.plan.cells
    }
    trained = []
    real = runner.trained
    monkeypatch.setattr(
        runner, "trained", lambda s, r: trained.append(s.path) or real(s, r)
    )
    more = sweep(small(), {**AXES, "method.lam": [1.0, 10.0, 5.0]}, folder, quiet())
    assert len(trained) == 2 and len(more.summaries) == 6
    for path, stamp in before.items():
        assert (path / "summary.json").stat().st_mtime_ns == stamp


def test_a_cell_that_was_run_alone_is_recognised(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner.run(small(rounds=1), console=quiet())
    trained = []
    real = runner.trained
    monkeypatch.setattr(
        runner, "trained", lambda s, r: trained.append(s.path) or real(s, r)
    )
    done = sweep(small(rounds=1), {"seed": [0, 1]}, console=quiet())
    assert trained == [Path("runs/fedproto-digits-seed1")]
    assert {str(p.parent) for p in done.files} == {"sweeps/fedproto-digits-seed"}


@pytest.mark.long
def test_a_diverged_cell_stops_alone(tmp_path):
    for form in ("one", "all"):
        axes = {"optimizer.learning_rate": [1e30, 0.1]}
        console = Console(file=io.StringIO(), width=80)
        done = sweep(small(rounds=2), axes, tmp_path / form, console, How(form))
        assert "1e+30: diverged: round 1: client" in console.file.getvalue()
        lost, well = done.summaries.values()
        assert (lost["status"], well["status"]) == ("diverged", "finished")
        assert "client" in lost["reason"]
        assert well["rounds"] == 2
        rows = (tmp_path / form / "sweep.csv").read_text()
        assert "diverged" in rows


def test_a_wrong_cell_refuses_all_and_leaves_nothing(tmp_path):
    axes = {"seed": [0], "data.clients": [3, 10**6]}
    with pytest.raises(jaxproto.UserError, match=r"data\.clients=1000000 cannot run"):
        sweep(small(), axes, tmp_path / "none", quiet())
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("value", ["0", "some", "-1"])
def test_a_wrong_number_at_once_is_told(tmp_path, value):
    with pytest.raises(jaxproto.UserError, match=f"cells_at_once is '{value}'"):
        sweep(small(), AXES, tmp_path, quiet(), How(value))


COMMAND = [
    *(sys.executable, "-m", "jaxproto", "sweep", "--config=fedproto:digits"),
    *("--config.model.group=mlp", "--config.data.clients=3", "--config.rounds=30"),
    *(
        "--config.eval_every=1",
        "--config.checkpoint_every=1",
        "--cells_at_once=threads",
    ),
    *("--sweep=seed=0,1", "--sweep=method.lam=1,10"),
]


@pytest.mark.long
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_sweep_goes_on_to_the_same_bits(tmp_path, sent):
    environment = {**os.environ, "MPLBACKEND": "agg"}
    folder = tmp_path / "sweep"
    command = [*COMMAND, f"--workdir={folder}"]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored stays so
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    while len(list(folder.glob("*/checkpoints/4"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(sent)
    process.wait(60)
    assert not list(folder.glob("*/summary.json"))
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL)
    alone = tmp_path / "alone"
    c = small(rounds=30, **{"method.lam": 10.0, "seed": 1})
    runner.run(c, alone, quiet())
    (mine,) = [
        path.parent
        for path in folder.glob("*/config.json")
        if json.loads(path.read_text())["seed"] == 1
        and json.loads(path.read_text())["method"]["lam"] == 10
    ]
    assert end(mine) == end(alone)

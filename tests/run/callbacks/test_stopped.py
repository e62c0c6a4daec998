"""Runs that a callback has stopped: what the same command says, and how they go on."""

import dataclasses
import shutil

import jax
import numpy as np
import pytest
from support import quick, runs
from support.refusal import refused
from support.runs import run

from jaxproto.callbacks import Callback, Stop
from jaxproto.experiment import build
from jaxproto.storage import checkpoint
from jaxproto.training import programs

quick_runs = quick.quick_runs  # a fixture of all tests here
KEPT = {"participation__law": "uniform", "participation__fraction": 0.75}
KEPT |= {"local__optimizer_state": "keep", "optimizer__momentum": 0.5}
EACH = {"rounds": 4, "eval_every": 1, "checkpoint_every": 1}


@dataclasses.dataclass
class StopIn(Callback):
    """Stops in a round; counts the records that it has seen."""

    round: int
    seen: int = 0

    def on_evaluation(self, record):
        self.seen += 1
        return Stop("enough") if record["round"] == self.round else None


def four(**changes):
    return runs.small(**{**EACH, **KEPT, **changes})


def weights(path, c):
    like = programs.shapes(build.experiment(c, "cpu"), c.seed)
    found = checkpoint.restore_latest(path / "checkpoints", like)
    return found.round, [np.asarray(a) for a in jax.tree.leaves(found.state)]


@pytest.fixture(scope="module")
def stopped(quick_runs, tmp_path_factory):
    path = tmp_path_factory.mktemp("stopped")
    summary, _ = run(four(), path, StopIn(2))
    assert (summary["status"], summary["rounds"]) == ("stopped early", 2)
    return path


def test_the_same_command_says_which_callback_stopped_the_run_and_how_it_goes_on(
    stopped, tmp_path
):
    before, used = runs.snapshot(stopped), StopIn(2)
    said = " ".join(run(four(), stopped, StopIn(2))[1].split())
    by = "was stopped by callback StopIn in round 2: enough. Leave the callback out, "
    assert f"{by}change it, or give more rounds, and the run goes on." in said
    assert runs.snapshot(stopped) == before
    run(four(), tmp_path, used)
    assert used.seen == 2 and by in " ".join(run(four(), tmp_path, used)[1].split())


@pytest.mark.parametrize(
    ("rounds", "callbacks"), [(4, []), (4, [StopIn(9)]), (5, [StopIn(2)])]
)
def test_a_run_goes_on_bit_for_bit_without_or_with_another_callback_or_more_rounds(
    stopped, tmp_path, rounds, callbacks
):
    c, whole, path = four(rounds=rounds), tmp_path / "whole", tmp_path / "stopped"
    run(c, whole)
    shutil.copytree(stopped, path)
    summary, said = run(c, path, *callbacks)
    assert "after round 2" in said
    assert (summary["status"], summary["rounds"]) == ("finished", rounds)
    assert runs.records(path) == runs.records(whole)
    (r, made), (last, want) = weights(path, c), weights(whole, c)
    assert r == last == rounds
    assert all(map(np.array_equal, made, want))
    assert "is finished: nothing to do" in run(c, path, *callbacks)[1]


def test_a_run_that_goes_on_may_be_stopped_again(stopped, tmp_path):
    path, c = tmp_path / "stopped", four()
    shutil.copytree(stopped, path)
    summary, _ = run(c, path, StopIn(3))
    assert (summary["status"], summary["rounds"]) == ("stopped early", 3)
    assert "callback StopIn in round 3" in run(c, path, StopIn(3))[1]
    assert run(c, path)[0]["status"] == "finished"


def test_a_run_that_goes_on_and_is_killed_goes_on_again(stopped, tmp_path):
    whole, path, c = tmp_path / "whole", tmp_path / "killed", four()
    run(c, whole)
    shutil.copytree(whole, path)
    shutil.rmtree(path / "checkpoints" / "4")  # killed in the last round
    shutil.copy(stopped / "summary.json", path)
    summary, said = run(c, path)
    assert "after round 3" in said and summary["status"] == "finished"
    assert runs.records(path) == runs.records(whole)


def test_without_a_checkpoint_it_cannot_go_on(stopped, tmp_path):
    path = tmp_path / "stopped"
    shutil.copytree(stopped, path)
    shutil.rmtree(path / "checkpoints")
    before = runs.snapshot(path)
    with refused("is stopped early after 2 rounds and has no checkpoint"):
        run(four(), path)
    assert runs.snapshot(path) == before

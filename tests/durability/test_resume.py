"""A run is never lost: stopped, killed, damaged or diverged, it goes on or says why."""

import json
import os
import shutil
import signal

import jax
import numpy as np
import pytest
from support import runs
from support.runs import ROUNDS, again, assert_same_end, copy_of, last_state, records

from jaxproto.errors import UserError
from jaxproto.storage import checkpoint
from jaxproto.summary import pictures
from jaxproto.training import checkpointing, engine, loop

cache, finished = runs.cache, runs.finished
pytestmark = [pytest.mark.usefixtures("cache"), pytest.mark.long]


class Stop(Exception):
    """Stands for whatever ends a process."""


def ctrl_c(save, *args):
    os.kill(os.getpid(), signal.SIGINT)
    return save(*args)  # goes on to its end


def torn(append, path, row):
    with path.open("ab") as file:
        file.write(json.dumps(row).encode()[:50])


def stops(patch):
    """Ways to end a run, one after the other, each a little later."""

    def once(target, name, when, before=lambda *a: None, error=Stop):
        real = getattr(target, name)

        def f(*args, **kwargs):
            if not when(*args):
                return real(*args, **kwargs)
            result = before(real, *args)
            if error:
                raise error
            return result

        patch.setattr(target, name, f)

    def at(r):
        return lambda *args: r in args

    def record(r):
        return lambda path, row: row["round"] == r

    def saves(r):
        return lambda folder, *_: folder.name == f"{r}.partial"

    yield lambda: once(loop.records, "append", record(2), torn)
    yield lambda: once(loop.records, "append", record(2), lambda f, *a: f(*a))
    yield lambda: once(checkpoint.manifest, "write", saves(2), ctrl_c, error=None)
    yield lambda: once(engine.LocalEngine, "round", at(2), error=KeyboardInterrupt)
    yield lambda: once(checkpoint.manifest, "write", saves(3))
    yield lambda: once(checkpoint.shutil, "rmtree", lambda p: p.name == "1.partial")
    yield lambda: once(checkpointing.checkpoint, "save", at(5), lambda f, *a: f(*a))
    yield lambda: once(pictures, "draw_all", lambda *_: True)
    yield lambda: once(loop.records, "write_json", lambda p, _: "summary" in p.name)


@pytest.fixture
def listening():
    """Ctrl-C is heard, also where a shell started these tests in its background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("listening")
def test_a_run_stopped_again_and_again_ends_as_if_never_stopped(finished, tmp_path):
    """Nine ends: in an evaluation, a round, a save, and after the last round."""
    resumed_after = []
    with pytest.MonkeyPatch.context() as patch:
        for arrange in stops(patch):
            arrange()
            with pytest.raises((Stop, KeyboardInterrupt)):
                again(finished, tmp_path)
            patch.undo()
            resumed_after.append(checkpoint.rounds(tmp_path / "checkpoints")[-1])
    assert resumed_after == [1, 1, 2, 2, 2, 4, 5, 5, 5]
    assert "after round 5" in again(finished, tmp_path)[1]
    assert_same_end(tmp_path, finished)


def test_damaged_checkpoints_are_passed_over_and_nothing_is_deleted(finished, tmp_path):
    copy_of(finished, tmp_path)
    newest = tmp_path / "checkpoints" / str(ROUNDS)
    victim = max((p for p in newest.rglob("*") if p.is_file()), key=os.path.getsize)
    victim.write_bytes(victim.read_bytes()[:-100] + bytes(100))
    text = again(finished, tmp_path)[1]
    assert "the checkpoint of round 5" in text and "is damaged" in text
    assert f"resuming {tmp_path} after round 4\n" in text
    assert_same_end(tmp_path, finished)
    copy_of(finished, tmp_path)
    for manifest in tmp_path.glob("checkpoints/*/manifest.json"):
        manifest.write_text("{")
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match=r"every checkpoint in .* is damaged"):
        again(finished, tmp_path)
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == before
    assert records(tmp_path) == records(finished.path)


def test_divergence_names_round_cohort_and_client_and_keeps_the_checkpoint(
    finished, tmp_path
):
    """Of a run after round 4 in which the weights of client 2 are infinite."""
    copy_of(finished, tmp_path)
    shutil.rmtree(tmp_path / "checkpoints" / str(ROUNDS))
    state = jax.tree.map(np.array, last_state(tmp_path, finished.state)[1])
    (stacked,) = (c for c in state.clients if 2 in c.id)
    for leaf in jax.tree.leaves(stacked.params):
        leaf[stacked.id == 2] = np.inf
    checkpoint.save(tmp_path / "checkpoints", ROUNDS - 1, state)
    summary, text = again(finished, tmp_path)
    assert summary["status"] == "diverged"
    assert "round 5: client 2 of cohort 'mlp' has loss nan" in summary["reason"]
    assert "checkpoint of round 4 stays in" in summary["reason"]
    assert f"diverged: {summary['reason']}" in text
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert checkpoint.rounds(tmp_path / "checkpoints") == [3, 4]
    assert [row["round"] for row in records(tmp_path)] == [2, 4]
    assert "is diverged: nothing to do" in again(finished, tmp_path)[1]

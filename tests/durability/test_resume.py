"""A run is never lost: killed, diverged or of an earlier version, it goes on.

Kills at system calls are spread over runs of five methods, and one with clients in
files (`support/killing.py`): in one process, where the call and all later ones fail,
and with SIGKILL. A full disk is one line of error, and the run goes on afterwards.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rich.console import Console
from support import runs
from support.every import note_counts
from support.runs import ROUNDS, again, copy_of, last_state, records

import jaxproto
from jaxproto import config
from jaxproto.reporting import compare
from jaxproto.reporting import html as page
from jaxproto.saved_runs import restore
from jaxproto.storage import checkpoint
from jaxproto.storage.run_folder import RunFolder
from jaxproto.storage.status import Status
from jaxproto.training import runner

finished = runs.finished
FIXTURES = runs.ROOT / "tests" / "fixtures"


@pytest.mark.long
def test_divergence_names_round_cohort_and_client_and_keeps_the_checkpoint(
    finished, tmp_path
):
    """Resumes a run after round 4 in which the weights of client 2 are infinite."""
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


# ------------------------------------------------------------------------ kills


SAVER = """
import sys
import jax.numpy as jnp
from jaxproto.storage import checkpoint

like = {"w": jnp.zeros((64, 16384)), "r": jnp.int32(0)}
found = checkpoint.restore_latest(sys.argv[1], like)
start = 0 if found is None else found.round
print("ready", start, found.notes if found else [], flush=True)
for r in range(start + 1, start + 1000):
    state = {"w": jnp.full((64, 16384), r, jnp.float32), "r": jnp.int32(r)}
    checkpoint.save(sys.argv[1], r, state)
    print(r, flush=True)
"""


@pytest.mark.long
def test_kill_9_at_any_moment_loses_at_most_the_save_in_progress(tmp_path):
    like = {"w": jnp.zeros((64, 16384)), "r": jnp.int32(0)}
    env = {**os.environ, "PYTHONPATH": str(runs.ROOT)}
    done = 0
    for delay in (0.01, 0.05, 0.11):
        command = [sys.executable, "-c", SAVER, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env) as p:
            assert p.stdout.readline() == f"ready {done} []\n"
            p.stdout.readline(), p.stdout.readline()
            time.sleep(delay)
            p.send_signal(signal.SIGKILL)
            rest = p.stdout.read().split()
        done = max(done + 2, *map(int, rest), 0)
        got = checkpoint.restore_latest(tmp_path, like)
        assert got.round in (done, done + 1) and got.notes == []
        assert int(got.state["r"]) == got.round
        assert (np.asarray(got.state["w"]) == got.round).all()
        done = got.round


def said(script, *arguments, **changes):
    """A script of support/ in a process of its own: JSON in its last line, errors."""
    path = os.pathsep.join([str(runs.ROOT), str(runs.ROOT / "tests")])
    env = {**os.environ, "PYTHONPATH": path, "JAXPROTO_CACHE": "off", **changes}
    command = [sys.executable, runs.ROOT / "tests/support" / script, *arguments]
    end = subprocess.run([*map(str, command)], capture_output=True, text=True, env=env)
    assert end.returncode == 0, end.stderr
    return json.loads(end.stdout.splitlines()[-1]), end.stderr


@pytest.mark.long
def test_killed_at_a_call_a_run_goes_on_to_the_same_bits(tmp_path):
    data = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "JAXPROTO_CACHE": ""}
    found, _ = said("killing.py", tmp_path, 6, **data)  # the data are kept decoded
    note_counts(f"kills: {found}")
    assert found == {"tried": 36, "failed": {}}


@pytest.mark.long
@pytest.mark.landing
def test_random_lives_end_with_the_bits_of_undisturbed_runs(tmp_path):
    """For `FUZZ_SECONDS`; `support/lives.py` repeats a life by its seed."""
    seed = int(time.time() / 86400) * 1000  # others every day
    seconds = os.environ.get("FUZZ_SECONDS", "30")
    found, _ = said("lives.py", tmp_path, seconds, seed)
    note_counts(f"lives: {found}")
    assert found["lives"] and found["failed"] == {}


@pytest.mark.long
def test_files_that_do_not_fit_are_named_and_with_room_the_run_ends_with_the_same_bits(
    tmp_path,
):
    """Limits of 0 to 6,000 bytes for a file, which act on root and on C++ too."""
    found, errors = said("filling.py", tmp_path)
    texts = found["said"].values()
    names = [text.split()[2].removeprefix(f"{tmp_path}/run/") for text in texts]
    assert len(names) == 7 and all("\n" not in text for text in texts)
    wanted = ["partition.csv:", "indices.csv:", "config.json:", "checkpoints/1:"]
    assert list(dict.fromkeys(names)) == wanted
    for text in texts:
        assert "File too large (" in text and " needed, " in text and " free)" in text
        assert "Make room there or choose another place" in text
    assert found["same"] and found["left"] == [] and errors == ""


# ------------------------------------------------------------- earlier versions


@pytest.fixture(params=["03d3868", pytest.param("cbdea53", marks=pytest.mark.long)])
def old(request, tmp_path):
    """configs/protonorm.py:spiral, 4 clients, 2 rounds, as this commit wrote it."""
    there = FIXTURES / f"run_of_{request.param}"
    return Path(shutil.copytree(there, tmp_path / "run"))


@pytest.mark.long
def test_a_run_of_an_earlier_version_goes_on_to_where_one_of_this_comes(old, tmp_path):
    before = (old / "metrics.jsonl").read_text()
    again = restore.configuration(RunFolder.read(old))
    assert again.model.init == "independent"  # a field that did not exist then
    again.rounds = 4
    quiet = Console(quiet=True)
    new, went_on = (runner.run(again, path, quiet) for path in (tmp_path / "new", old))
    assert went_on["status"] == "finished" and went_on["rounds"] == 4
    after = (old / "metrics.jsonl").read_text()
    assert after.startswith(before) and len(after.splitlines()) == 4
    assert checkpoint.rounds(old / "checkpoints")[-1] == 4
    assert new["rules"].keys() == went_on["rules"].keys()
    # Rules with prototypes depend on rounding, which the pull amplifies. The loss of
    # round 3 would be a tenth if clients or prototypes were new.
    ends = [run["rules"]["head"]["pooled"]["final"] for run in (new, went_on)]
    assert ends[0] == pytest.approx(ends[1], abs=0.05)
    losses = [records(path)[2]["loss"] for path in (tmp_path / "new", old)]
    assert losses[0] == pytest.approx(losses[1], rel=0.1)


def test_every_reader_opens_a_run_of_an_earlier_version(old):
    written = json.loads((old / "config.json").read_text())
    found = config.upgrade_saved(written)
    today = {**config.flatten(config.default()), "method.name": "protonorm"}
    assert {*today} <= {*found} and found["method.reg"] == written["method"]["reg"]
    run = jaxproto.load(old)
    assert run.status is Status.FINISHED and run.rounds == run.round == 2
    assert len(run.metrics) == 2 * 4 and run.prototypes.mean.shape == (6, 2)
    told = records(old)[-1]["rules"]
    for rule, found in run.evaluate().items():
        assert found["pooled"] == pytest.approx(told[rule]["pooled"], abs=0.002)
    client = run.clients[3]
    assert client.features([[0.5, 1]]).shape == (1, 2)
    assert client.predict(client.data.train.x[:3]).shape == (3,)
    table = compare.table(compare.group_by_seed([compare.load(old)]))
    assert "ProtoNorm" in compare.render(table, "csv")
    html = page.render_page([old], "2030-01-02 03:04 UTC").html
    assert "finished, 2 rounds" in html and "No checkpoint" not in html

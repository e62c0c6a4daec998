"""One run by several processes: the bits of one, and they end together."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from jaxproto.errors import UserError
from jaxproto.storage import checkpoint, manifest, orbax_arrays, process_shards, records
from jaxproto.training import multihost

ROOT = Path(__file__).parents[2]
RUN = (
    "--config=configs/fedproto.py",
    "--config.data.clients=7",
    "--config.model.group=mlp",
    "--config.checkpoint_every=1",
)
ROUNDS = 60
LIMIT = 400  # seconds that any of these processes may take


def port():
    """One that nobody listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def begin(folder, number, rounds, *more):
    """Processes of one run; all of them write to pipes."""
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "main.py", *RUN, f"--config.rounds={rounds}"]
    command += [f"--workdir={folder}", *more]
    at, each = f"--coordinator=127.0.0.1:{port()}", [[]]
    if number > 1:
        each = [[at, f"--processes={number}", f"--process={i}"] for i in range(number)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    return [
        subprocess.Popen([*command, *own], cwd=ROOT, env=env, **pipes) for own in each
    ]


def ended(processes):
    """What each of them printed, when all have ended."""
    return [p.communicate(timeout=LIMIT)[0] for p in processes]


def run(folder, number, rounds, *more):
    processes = begin(folder, number, rounds, *more)
    said = ended(processes)
    assert [p.returncode for p in processes] == [0] * number, said
    return said


def told(folder):
    rows = records.read(folder / "metrics.jsonl")
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def state(folder):
    r = checkpoint.rounds(folder / "checkpoints")[-1]
    last = folder / "checkpoints" / str(r)
    whole = (
        process_shards.read(last, manifest.read_leaves(last))
        if process_shards.has_process_shards(last)
        else {}
    )
    return whole | orbax_arrays.read_all(last / "state")


def same(a, b):
    """Whether arrays by name are equal; some have no elements, and are not written."""
    a, b = ({k: v for k, v in x.items() if v.size} for x in (a, b))
    return a.keys() == b.keys() and all(
        np.array_equal(a[k], b[k], equal_nan=True) for k in a
    )


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    run(folder, 1, ROUNDS)
    return folder


@pytest.mark.long
def test_two_processes_have_the_bits_of_one(alone, tmp_path):
    said = run(tmp_path / "run", 2, ROUNDS)
    assert told(tmp_path / "run") == told(alone)
    assert same(state(tmp_path / "run"), state(alone))
    parts = tmp_path / "run" / "checkpoints" / str(ROUNDS) / process_shards.FOLDER
    assert sorted(p.name for p in parts.iterdir()) == ["0.safetensors", "1.safetensors"]
    assert "participants on each: mlp 4 of 7" in " ".join(said[0].split())
    assert "participants" not in said[1]  # one process speaks


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 2])
def test_a_process_that_dies_ends_the_others_and_the_run_goes_on(
    alone, tmp_path, victim
):
    folder, processes = tmp_path / "run", begin(tmp_path / "run", 3, ROUNDS)
    until = time.monotonic() + LIMIT
    while not checkpoint.rounds(folder / "checkpoints")[2:]:
        assert time.monotonic() < until
        assert all(p.poll() is None for p in processes), ended(processes)
        time.sleep(0.05)
    processes[victim].send_signal(signal.SIGKILL)
    said = ended(processes)
    for i, (process, text) in enumerate(zip(processes, said, strict=True)):
        if i != victim:
            assert process.returncode != 0
            lines = [x for x in text.splitlines() if x.startswith("error: ")]
            assert len(lines) == 1 and multihost.LOST in lines[0], text
    assert checkpoint.rounds(folder / "checkpoints")[-1] < ROUNDS
    run(folder, 2, ROUNDS)
    assert told(folder) == told(alone)
    assert same(state(folder), state(alone))


@pytest.mark.long
def test_what_one_process_cannot_do_all_say(tmp_path):
    processes = begin(tmp_path / "run", 2, 2, "--config.wire.check=True")
    for process, text in zip(processes, ended(processes), strict=True):
        assert process.returncode == 1
        assert "error: wire.check looks at every upload" in text
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("processes", "process"), [(0, -1), (2, 2), (2, -1), (-1, 0), (0, 0)]
)
def test_numbers_of_processes_that_do_not_fit_are_refused(processes, process):
    with pytest.raises(UserError, match=f"--processes={processes} and "):
        multihost.initialize("127.0.0.1:1", processes, process)


def test_processes_that_do_not_meet_say_so(monkeypatch):
    def none(**given):
        assert not any(name in given for name in ("process_id", "num_processes"))
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(jax.distributed, "initialize", none)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    with pytest.raises(UserError, match=r"=auto: .* did not meet .* Say HOST:PORT"):
        multihost.initialize("auto")


def test_one_process_agrees_with_itself():
    assert multihost.broadcast_result(lambda: [1, None]) == [1, None]
    assert multihost.raise_everywhere(lambda: 3) == 3
    assert (
        multihost.is_primary()
        and not multihost.is_multihost()
        and multihost.any_process(True)
    )

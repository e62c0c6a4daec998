"""One run by several processes: the bits of one, and they end together."""

import os
import signal
import socket
import subprocess
import sys
import time

import jax
import pytest
from support import runs
from support.attacked import end
from support.processes import LIMIT, until
from support.refusal import refused

from jaxproto.storage import checkpoint, process_shards
from jaxproto.training import multihost

RUN = "--config=configs/fedproto.py", "--config.data.clients=7"
RUN += "--config.model.group=mlp", "--config.checkpoint_every=1"
ROUNDS = 60


def port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def begin(folder, number, rounds, *more):
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "main.py", *RUN, f"--config.rounds={rounds}"]
    command += [f"--workdir={folder}", *more]
    at, each = f"--coordinator=127.0.0.1:{port()}", [[]]
    if number > 1:
        each = [[at, f"--processes={number}", f"--process={i}"] for i in range(number)]
    how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    how |= {"cwd": runs.ROOT, "env": env}
    return [subprocess.Popen([*command, *own], **how) for own in each]


def ended(processes):
    return [p.communicate(timeout=LIMIT)[0] for p in processes]


def run(folder, number, rounds):
    processes = begin(folder, number, rounds)
    said = ended(processes)
    assert [p.returncode for p in processes] == [0] * number, said
    return said


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("alone") / "run"
    run(folder, 1, ROUNDS)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 2])
def test_a_process_that_dies_ends_the_others_and_two_go_on_to_the_bits_of_one(
    alone, tmp_path, victim
):
    folder, processes = tmp_path / "run", begin(tmp_path / "run", 3, ROUNDS)
    trained(folder, processes, 3)
    processes[victim].send_signal(signal.SIGKILL)
    said = ended(processes)
    for i, (process, text) in enumerate(zip(processes, said, strict=True)):
        if i != victim:
            assert process.returncode != 0
            lines = [x for x in text.splitlines() if x.startswith("error: ")]
            assert len(lines) == 1 and multihost.LOST in lines[0], text
    assert checkpoint.rounds(folder / "checkpoints")[-1] < ROUNDS
    said = run(folder, 2, ROUNDS)
    assert end(folder) == end(alone)
    parts = folder / "checkpoints" / str(ROUNDS) / process_shards.FOLDER
    assert sorted(p.name for p in parts.iterdir()) == ["0.safetensors", "1.safetensors"]
    assert "participants on each: mlp 4 of 7" in " ".join(said[0].split())
    assert "participants" not in said[1]  # one process speaks


@pytest.mark.long
def test_what_one_process_cannot_do_all_say(tmp_path):
    processes = begin(tmp_path / "run", 2, 2, "--config.wire.check=True")
    for process, text in zip(processes, ended(processes), strict=True):
        assert process.returncode == 1
        assert "error: wire.check looks at every upload" in text
    assert not (tmp_path / "run").exists()


def test_numbers_addresses_and_hosts_that_cannot_work_and_who_does_not_meet_are_refused(
    monkeypatch,
):
    for processes, process in ((0, -1), (2, 2), (2, -1)):
        with refused(f"--processes={processes} and "):
            multihost.initialize("127.0.0.1:1", processes, process)
    for address in ("127.0.0.1", ":1", "a:", "127.0.0.1:99999", "h:\u0663"):
        with refused("it is HOST:PORT with a port from 1 to 65535"):
            multihost.initialize(address, 2, 0)
    with refused("host nosuch.invalid is not known here"):
        multihost.initialize("nosuch.invalid:1234", 2, 1)

    def none(**given):
        assert not any(name in given for name in ("process_id", "num_processes"))
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr(jax.distributed, "initialize", none)
    monkeypatch.setattr(jax.config, "update", lambda *_: None)
    with refused("=auto: ", " did not meet ", " Say HOST:PORT"):
        multihost.initialize("auto")


def trained(folder, processes, least):
    """Waits until a run has so many checkpoints."""
    until(lambda: checkpoint.rounds(folder / "checkpoints")[least - 1 :], *processes)


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 1])
def test_sigterm_to_one_process_saves_the_round_and_ends_all(tmp_path, victim):
    processes = begin(tmp_path / "run", 2, 4000)
    trained(tmp_path / "run", processes, 2)
    processes[victim].send_signal(signal.SIGTERM)
    said = ended(processes)
    last = checkpoint.rounds(tmp_path / "run" / "checkpoints")[-1]
    assert last < 4000 and [p.returncode for p in processes] == [143, 143], said
    for text in said:
        line = f"terminated: round {last} is saved, the same command goes on"
        assert text.splitlines()[-1] == line


@pytest.mark.long
@pytest.mark.parametrize("victim", [0, 1])
def test_a_frozen_process_ends_the_others_with_one_line(tmp_path, victim):
    processes = begin(tmp_path / "run", 2, 4000)
    trained(tmp_path / "run", processes, 2)
    processes[victim].send_signal(signal.SIGSTOP)
    clock = time.monotonic()
    text = processes[1 - victim].communicate(timeout=LIMIT)[0]
    assert time.monotonic() - clock < 2 * multihost.TIMEOUT
    processes[victim].kill()
    ended([processes[victim]])
    lines = text.splitlines()
    assert lines[-1].startswith("error: ") and multihost.LOST in lines[-1], text
    assert not [x for x in lines if "File " in x or "absl" in x], text

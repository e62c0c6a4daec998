"""Sweeps in processes of their own leave what runs alone do, to the bit."""

import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.attacked import end
from support.processes import LIMIT, until
from support.runs import ROOT
from support.sweeping import console

from jaxproto import config
from jaxproto.lab import sweeps
from jaxproto.storage import records
from jaxproto.training import runner

FIELDS = {"data.clients": 3, "model.group": "mlp"}
FIELDS |= {"eval_every": 1, "checkpoint_every": 3}
AXES = {"seed": [0, 1], "method.lam": [1.0, 10.0]}  # see `words`

pytestmark = pytest.mark.long


def words(folder, rounds, *more):
    fields = {**FIELDS, "rounds": rounds}
    changes = [f"--config.{k}={v}" for k, v in fields.items()]
    axes = "--sweep=seed=0,1", "--sweep=method.lam=1,10"
    file = "--config=configs/fedproto.py:digits"
    start = [sys.executable, "-m", "jaxproto", "sweep", file, *changes, *axes]
    return [*start, f"--workdir={folder}", *more]


def begun(command):
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, env=env, cwd=ROOT, **pipes)


def finished(process) -> str:
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, f"{out}\n{err}"
    return out


def cells(folder, rounds):
    c, plain = (config.experiment("fedproto", "digits") for _ in range(2))
    c.update_from_flattened_dict({**FIELDS, "rounds": rounds})
    return sweeps.plan(c, sweeps.parse_axes(c, AXES), folder, plain).cells


def check_alone(there, tmp_path):
    """Every cell is what its configuration alone leaves, but for seconds."""
    for cell in there:
        alone = tmp_path / "alone" / cell.path.name
        runner.run(cell.config, alone, console())
        assert end(cell.path) == end(alone), cell.name


def test_a_printed_command_trains_its_part(tmp_path):
    folder = tmp_path / "a folder"
    out = finished(begun(words(folder, 2, "--launcher=print", "--parts=2")))
    assert not folder.exists()
    lines = [shlex.split(line) for line in out.splitlines()]
    assert lines == [words(folder, 2, f"--part={k}/2") for k in range(2)]
    assert "2 cells of other parts" in finished(begun(lines[1]))
    there = cells(folder, 2)
    ended = [(cell.path / "summary.json").exists() for cell in there]
    assert ended == [False, False, True, True]
    check_alone(there[2:3], tmp_path)


def test_two_processes_share_the_cells_of_one_sweep(tmp_path):
    folder = tmp_path / "sweep"
    for text in map(finished, [begun(words(folder, 3)) for _ in range(2)]):
        assert text.count(": finished, best") == 4 and "sweep.csv" in text
    check_alone(cells(folder, 3), tmp_path)


def killed_one(there, rounds) -> Path | None:
    """Kills the process of a cell between its rounds; its work directory."""
    for cell in there:
        newest = records.read_last(cell.path / "metrics.jsonl")
        if newest and newest["round"] < rounds - 20:
            holder = (cell.path / ".lock").read_text()
            if pid := holder.partition(" on ")[0]:
                os.kill(int(pid), signal.SIGKILL)
                return cell.path
    return None


def test_a_killed_worker_of_ray_loses_nothing(tmp_path):
    pytest.importorskip("ray")
    folder, rounds = tmp_path / "sweep", 60
    there = cells(folder, rounds)
    driver = begun(words(folder, rounds, "--launcher=ray", "--parts=2"))
    try:
        killed = until(lambda: killed_one(there, rounds), driver)
        out = finished(driver)
    finally:
        driver.kill()
    assert out.count("is taken up again") == 1
    assert out.count(": finished, best") == 4 and "sweep.csv" in out
    assert killed in [cell.path for cell in there]
    check_alone(there, tmp_path)


LANDING = pytest.param(signal.SIGKILL, marks=pytest.mark.landing)


@pytest.mark.parametrize("sent", [LANDING, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_sweep_goes_on_to_the_same_bits(tmp_path, sent):
    folder, rounds = tmp_path / "sweep", 30
    command = words(folder, rounds, "--cells_at_once=threads")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored stays so
    process = begun(command)
    until(lambda: len(list(folder.glob("*/checkpoints/6"))) >= 2, process)
    process.send_signal(sent)
    process.communicate(timeout=LIMIT)
    assert not list(folder.glob("*/summary.json"))
    went_on = re.findall(r"after round (\d+)", finished(begun(command)))
    assert sum(int(r) >= 6 for r in went_on) >= 2  # what was saved is not lost
    check_alone(cells(folder, rounds)[3:], tmp_path)

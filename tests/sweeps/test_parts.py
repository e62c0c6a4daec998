"""Parts of a sweep in several processes leave what runs alone do, to the bit."""

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support import runs

from jaxproto import config, sweeps
from jaxproto.storage import records

ROOT = Path(__file__).parents[2]
FIELDS = {
    "data.clients": 3,
    "model.group": "mlp",
    "eval_every": 1,
    "checkpoint_every": 7,
}
AXES = {"seed": [0, 1], "method.lam": [1.0, 10.0]}
LIMIT = 240.0  # seconds, on a busy machine

pytestmark = pytest.mark.long


def words(folder, rounds, *more):
    """The command of a sweep of four cells."""
    fields = {**FIELDS, "rounds": rounds}
    changes = [f"--config.{k}={v}" for k, v in fields.items()]
    given = [f"--sweep={k}={','.join(map(str, v))}" for k, v in AXES.items()]
    file = "--config=configs/fedproto.py:digits"
    start = [sys.executable, "-m", "jaxproto", "sweep", file, *changes, *given]
    return [*start, f"--workdir={folder}", *more]


def begun(command):
    env = {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(ROOT)}
    options = {"text": True, "env": env, "cwd": ROOT}
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
    )


def finished(process) -> str:
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, f"{out}\n{err}"
    return out


def cells(folder, rounds):
    c, plain = (config.experiment("fedproto", "digits") for _ in range(2))
    c.update_from_flattened_dict({**FIELDS, "rounds": rounds})
    return sweeps.plan(c, sweeps.axes(c, AXES), folder, plain).cells


def check_alone(there, tmp_path):
    """Every cell is what its configuration alone leaves, but for seconds."""
    for cell in there:
        alone = tmp_path / "alone" / cell.path.name
        runs.run(cell.config, alone)
        assert runs.records(cell.path) == runs.records(alone), cell.name


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


COUNTED = """
import sys
from jaxproto import cli
from jaxproto.sweeps import execute

trained = execute.runner.trained

def told(start, ready):
    with open(sys.argv[1], "a") as file:
        file.write(f"{start.path.name}\\n")
    return trained(start, ready)

execute.runner.trained = told
cli.main(sys.argv[3:])
"""


def test_two_processes_on_one_sweep_train_each_cell_once(tmp_path):
    log, folder = tmp_path / "log", tmp_path / "sweep"
    command = [sys.executable, "-c", COUNTED, str(log), *words(folder, 3)[2:]]
    both = [begun(command) for _ in range(2)]
    out = [finished(process) for process in both]
    there = cells(folder, 3)
    assert sorted(log.read_text().split()) == sorted(c.path.name for c in there)
    for text in out:
        assert text.count(": finished, best") == 4 and "sweep.csv" in text
    check_alone(there, tmp_path)


def holder(path: Path) -> int | None:
    """The process that is running in a work directory."""
    try:
        inode = str((path / ".lock").stat().st_ino)
    except FileNotFoundError:
        return None
    for line in Path("/proc/locks").read_text().splitlines():
        fields = line.split()
        if "->" not in fields and fields[5].rpartition(":")[2] == inode:
            return int(fields[4])
    return None


def kill_one(driver, there, rounds) -> Path:
    """Kills the process of a cell between its rounds; its work directory."""
    until = time.monotonic() + LIMIT
    while time.monotonic() < until and driver.poll() is None:
        for cell in there:
            newest = records.newest(cell.path / "metrics.jsonl")
            if newest and newest["round"] < rounds - 20 and (pid := holder(cell.path)):
                os.kill(pid, signal.SIGKILL)
                return cell.path
        time.sleep(0.01)
    raise AssertionError("no cell was seen in the middle")


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="asks Linux who runs")
def test_a_killed_worker_of_ray_loses_nothing(tmp_path):
    pytest.importorskip("ray")
    folder, rounds = tmp_path / "sweep", 60
    there = cells(folder, rounds)
    driver = begun(words(folder, rounds, "--launcher=ray", "--parts=2"))
    try:
        killed = kill_one(driver, there, rounds)
        out = finished(driver)
    finally:
        driver.kill()
    assert out.count("is taken up again") == 1
    assert out.count(": finished, best") == 4 and "sweep.csv" in out
    assert killed in [cell.path for cell in there]
    check_alone(there, tmp_path)

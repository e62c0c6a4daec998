"""Ctrl-C and SIGTERM: one line, exit code 130 or 143, and the run can go on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.long
LATER = "the same command resumes from the last checkpoint"


def start(entry, path, *more):
    """A run in a process of its own, whose Ctrl-C is not ignored."""
    fields = {"data.clients": 2, "eval_every": 1, "rounds": 2000}
    fields["checkpoint_every"] = 1000
    flags = [f"--config.{name}={value}" for name, value in fields.items()]
    file = "--config=configs/local.py:spiral"
    command = [sys.executable, *entry, file, *flags, f"--workdir={path}", *more]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what is ignored stays so
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, cwd=ROOT, env=env, **pipes)


def ended(process, told, within=15):
    """Exit code and standard error of a process that was told to end."""
    process.send_signal(told)
    _, err = process.communicate(timeout=within)
    return process.returncode, err


def in_rounds(path, process):
    """Waits until the first evaluation."""
    deadline = time.time() + 120
    while not (path / "metrics.jsonl").exists():
        assert process.poll() is None and time.time() < deadline
        time.sleep(0.02)


def listens(process):
    """Waits until the program hears SIGTERM; before, it is Python that starts."""
    status, deadline = Path(f"/proc/{process.pid}/status"), time.time() + 60
    while process.poll() is None and time.time() < deadline and status.exists():
        (heard,) = re.findall(r"^SigCgt:\s*(\w+)$", status.read_text(), re.MULTILINE)
        if int(heard, 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


MAIN = (["main.py"], ["-m", "jaxproto", "run"])


@pytest.mark.parametrize("entry", MAIN, ids=["main.py", "-m"])
@pytest.mark.parametrize("after", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(
    ("told", "code", "word"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_signal_during_imports_is_one_line(tmp_path, entry, after, told, code, word):
    process = start(entry, tmp_path / "run")
    listens(process)
    time.sleep(after)
    got, err = ended(process, told)
    saved = (
        r"terminated: round \d+ is saved, the same command goes on\n"  # a fast start
    )
    assert got == code
    assert err in (f"{word}\n", f"{word}: {LATER}\n") or re.fullmatch(saved, err)


@pytest.mark.parametrize(
    ("told", "grace", "end"),
    [
        (signal.SIGINT, "20", (130, f"interrupted: {LATER}\n")),
        (signal.SIGTERM, "0", (143, f"terminated: {LATER}\n")),
    ],
)
def test_ctrl_c_or_no_grace_ends_a_round_at_once(tmp_path, told, grace, end):
    process = start(MAIN[0], tmp_path, f"--grace={grace}")
    in_rounds(tmp_path, process)
    assert ended(process, told, 5) == end
    assert not (tmp_path / "checkpoints").exists()


def test_sigterm_saves_the_round_that_is_running(tmp_path):
    process = start(MAIN[0], tmp_path)
    in_rounds(tmp_path, process)
    code, err = ended(process, signal.SIGTERM)
    (saved,) = [p.name for p in (tmp_path / "checkpoints").iterdir()]
    assert code == 143
    assert err == f"terminated: round {saved} is saved, the same command goes on\n"
    records = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(records[-1])["round"] == int(saved)


SLOW = """
import sys, time
from jaxproto import cli
from jaxproto.training import loop, signals
signals.install_signal_handlers()

def slow(*args):
    sys.stdout.write("in a round\\n"), sys.stdout.flush()
    time.sleep(30)

loop.LocalEngine.round = slow
cli.call("run", "main.py", sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("told", "grace", "code"),
    [
        ([signal.SIGTERM], "1", 143),  # the round is too long for it
        ([signal.SIGTERM, signal.SIGTERM], "60", 143),
        ([signal.SIGTERM, signal.SIGINT], "60", 130),
    ],
)
def test_a_long_round_ends_with_the_grace_or_a_second_signal(
    tmp_path, told, grace, code
):
    (tmp_path / "slow.py").write_text(SLOW)
    process = start([str(tmp_path / "slow.py")], tmp_path / "run", f"--grace={grace}")
    while process.stdout.readline() != "in a round\n":
        assert process.poll() is None
    for one in told[:-1]:
        process.send_signal(one)
        time.sleep(0.3)
    got, err = ended(process, told[-1], 10)
    assert got == code and err.count("\n") == 1 and LATER in err


TOLD = """
import json, sys, time
from jaxproto import cli
from jaxproto.training import signals
from jaxproto.callbacks import WRITERS, Callback

class Last(Callback):
    def on_start(self, run_info):
        self.file = run_info.path / "ended.json"

    def on_end(self, summary):
        self.file.write_text(json.dumps(dict(summary)))
        time.sleep({hangs})

WRITERS["last"] = Last
signals.install_signal_handlers()
cli.call("run", "main.py", sys.argv[1:])
"""


def listening(tmp_path, hangs, *more):
    """A run with a callback that writes how it ended, and then takes its time."""
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / "told.py").write_text(TOLD.format(hangs=hangs))
    path = tmp_path / "run"
    process = start([str(tmp_path / "told.py")], path, "--writers=last", *more)
    in_rounds(path, process)
    return process, path / "ended.json"


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_callbacks_are_told_of_an_end_by_a_signal(tmp_path, told):
    process, file = listening(tmp_path, 0)
    code, err = ended(process, told)
    assert code == 128 + told and err.count("\n") == 1
    found = json.loads(file.read_text())
    assert found["status"] == "interrupted" and found["rounds"] > 0


def test_a_callback_that_hangs_holds_ctrl_c_up_for_five_seconds_or_a_second_signal(
    tmp_path,
):
    process, _ = listening(tmp_path / "one", 60)
    clock = time.monotonic()
    assert ended(process, signal.SIGINT, 15)[0] == 130
    assert time.monotonic() - clock < 10
    process, file = listening(tmp_path / "two", 60, "--grace=0")
    process.send_signal(signal.SIGTERM)
    while not file.exists():
        time.sleep(0.02)
    clock = time.monotonic()
    assert ended(process, signal.SIGINT, 10)[0] == 143
    assert time.monotonic() - clock < 4

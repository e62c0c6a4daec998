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
from support.processes import until
from support.runs import ROOT

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
    process.send_signal(told)
    _, err = process.communicate(timeout=within)
    return process.returncode, err


def listens(process):
    """Waits until the program hears SIGTERM; before, it is Python that starts."""
    status, deadline = Path(f"/proc/{process.pid}/status"), time.time() + 60
    while process.poll() is None and time.time() < deadline and status.exists():
        (heard,) = re.findall(r"^SigCgt:\s*(\w+)$", status.read_text(), re.MULTILINE)
        if int(heard, 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)


MAIN = {"main": ["main.py"], "module": ["-m", "jaxproto", "run"]}
INT, TERM = signal.SIGINT, signal.SIGTERM


@pytest.mark.parametrize(
    ("entry", "after", "told"),
    [
        *(("main", 0.0, INT), ("module", 0.0, TERM), ("module", 1.0, INT)),
        *(("main", 1.0, TERM), ("main", 3.0, INT), ("module", 3.0, TERM)),
    ],
)
def test_a_signal_during_imports_is_one_line(tmp_path, entry, after, told):
    process = start(MAIN[entry], tmp_path / "run")
    listens(process)
    time.sleep(after)
    got, err = ended(process, told)
    word = "interrupted" if told == INT else "terminated"
    assert got == 128 + told
    # A fast start is in a round already, which is saved.
    saved = r"terminated: round \d+ is saved, the same command goes on\n"
    assert re.fullmatch(rf"{word}(: {LATER})?\n|{saved}", err)


SLOW = """
import sys, time
from jaxproto import cli
from jaxproto.training import engine, signals
signals.install_signal_handlers()

def slow(*args):
    sys.stdout.write("in a round\\n"), sys.stdout.flush()
    time.sleep(30)

engine.LocalEngine.round = slow
cli.call("run", "main.py", sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("told", "grace"), [([TERM], "1"), ([TERM, TERM], "60"), ([TERM, INT], "60")]
)
def test_a_long_round_ends_with_the_grace_or_a_second_signal(tmp_path, told, grace):
    (tmp_path / "slow.py").write_text(SLOW)
    process = start([str(tmp_path / "slow.py")], tmp_path / "run", f"--grace={grace}")
    while process.stdout.readline() != "in a round\n":
        assert process.poll() is None
    for one in told[:-1]:
        process.send_signal(one)
        time.sleep(0.3)
    got, err = ended(process, told[-1], 10)
    assert got == 128 + told[-1] and err.count("\n") == 1 and LATER in err


TOLD = """
import json, runpy
from jaxproto.callbacks import WRITERS, Callback

class Last(Callback):
    def on_start(self, run_info):
        self.file = run_info.path / "ended.json"

    def on_end(self, summary):
        self.file.write_text(json.dumps(dict(summary)))

WRITERS["last"] = Last
runpy.run_path("main.py", run_name="__main__")
"""


@pytest.mark.parametrize(
    ("told", "grace"), [(INT, ["--grace=20"]), (TERM, ["--grace=0"]), (TERM, [])]
)
def test_a_round_ends_at_once_or_saved_and_callbacks_are_told(tmp_path, told, grace):
    (tmp_path / "told.py").write_text(TOLD)
    path, entry = tmp_path / "run", [str(tmp_path / "told.py")]
    process = start(entry, path, "--writers=last", *grace)
    until((path / "metrics.jsonl").exists, process)
    code, err = ended(process, told)
    found = json.loads((path / "ended.json").read_text())
    assert found["status"] == "interrupted" and found["rounds"] > 0
    assert code == 128 + told
    saved = path / "checkpoints"
    if grace:
        word = "interrupted" if told == INT else "terminated"
        assert err == f"{word}: {LATER}\n" and not saved.exists()
        return
    (r,) = [p.name for p in saved.iterdir()]
    assert err == f"terminated: round {r} is saved, the same command goes on\n"
    records = (path / "metrics.jsonl").read_text().splitlines()
    assert json.loads(records[-1])["round"] == int(r)

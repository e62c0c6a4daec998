"""Random lives of runs, whose ends must be those of undisturbed runs, bit for bit.

Runs and sweeps are killed at system calls that write, damaged, resumed and made longer.
`python lives.py FOLDER EACH` kills by SIGKILL, at a call or milliseconds later, and
leaves a killed run in FOLDER/CASE-CALL.
"""

import contextlib
import functools
import io
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule
from matplotlib.figure import Figure
from rich.console import Console

import jaxproto
from jaxproto.lab.sweeps import SweepOptions
from support import attacked
from support.hostile_folders import PLACE, cut, flip

LEAST = 100  # lower bound on the calls of a run
CALLS = ("replace", "rename", "fsync", "unlink", "remove", "rmdir", "mkdir")
CASES = {m: (m, "device") for m in attacked.METHODS}  # method, where its clients are
CASES |= {"disk": ("fedproto", "disk"), "host": ("protonorm", "host")}
LONGEST = 8  # rounds
NAMELESS = ("04", "x", "\u0665")  # no rounds


def config(case: str, file: Path, **changes):
    method, store = CASES[case]
    if store != "device":
        changes |= attacked.SAMPLED | {"clients__store": store}
    return attacked.small(method, file, **changes)


@contextlib.contextmanager
def ending_at(number: int, end: Callable):
    """Calls `end` before a system call that writes, by its number, and all later."""
    begun, opens = itertools.count(1), io.open

    def counted(call):
        @functools.wraps(call)
        def f(*args, **kwargs):
            mode = [*args[1:2], kwargs.get("mode", "r")][0]
            writes = call is not opens or set("wax+") & set(mode)
            if writes and next(begun) >= number:
                end()
            return call(*args, **kwargs)

        return f

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(io, "open", counted(opens))
        for name in CALLS:
            patch.setattr(os, name, counted(getattr(os, name)))
        yield


class Killed(BaseException):
    """Stands for the end of the process."""


def killed():
    raise Killed


def tear(run, newest, file, at):
    """Cuts the last record, as a kill in the middle of a write leaves it."""
    metrics = run / "metrics.jsonl"
    *before, last = metrics.read_bytes().splitlines(keepends=True)
    metrics.write_bytes(b"".join(before) + cut(last, at))


def leave(run, newest, file, at):
    """Leaves the files of other programs and of killed processes in a run."""
    (run / "checkpoints" / "99.partial" / "rows").mkdir(parents=True)
    for name in ("x-y", "3-5") if (newest / "rows").exists() else ():
        (newest / "rows" / name).mkdir()
    for name in NAMELESS:
        shutil.copytree(newest, run / "checkpoints" / name, dirs_exist_ok=True)
    (run / "config.json.new").write_text("{")
    (run / ".DS_Store").write_text("")


DAMAGE = {  # of a run, its newest checkpoint, any file of it, a bit
    # Bits of a file, and so of its hard links
    "flip": lambda run, newest, file, at: file.write_bytes(flip(file.read_bytes(), at)),
    "cut": lambda run, newest, file, at: file.write_bytes(cut(file.read_bytes(), at)),
    "lose": lambda run, newest, file, at: file.unlink(),
    "lose all": lambda run, newest, file, at: shutil.rmtree(newest),
    "tear": tear,
    "leave": leave,
    "unharmed": lambda *_: None,  # its summary goes, as after every damage
}


def assert_whole(run: Path, end: tuple):
    """Asserts the end of an undisturbed run, and that nothing unfinished is left."""
    assert attacked.end(run) == end, f"other numbers in {run}"
    assert not [p for p in run.rglob("*") if p.suffix in (".partial", ".new")]


def machine(folder: Path, done: Counter):
    """The machine of one life in a folder; counts what it does."""
    file, wholes = attacked.data(folder / "toy.npz"), {}

    class Life(RuleBasedStateMachine):
        """A run, or the cells of a sweep, from its start to its end."""

        path = None  # until it is born

        @initialize(
            case=st.sampled_from([*CASES]),
            sweeps=st.booleans(),
            rounds=st.integers(2, 4),
        )
        def born(self, case, sweeps, rounds):
            self.path = Path(tempfile.mkdtemp(dir=folder)) / "life"
            self.case, self.rounds = case, rounds
            self.sweeps = sweeps and CASES[case][1] == "device"
            done["lives"] += 1

        def config(self, seed=0):
            return config(self.case, file, rounds=self.rounds, seed=seed)

        def runs(self) -> list[Path]:
            if not self.sweeps:
                return [self.path]
            return [p.parent for p in sorted(self.path.glob("*/config.json"))]

        def go_on(self):
            c = self.config()
            if not self.sweeps:
                attacked.run(c, self.path)
                return
            attacked.begins(c)
            how = SweepOptions("one")
            jaxproto.sweep(c, {"seed": [0, 1]}, self.path, Console(quiet=True), how)

        @rule(at=st.integers(1, 40) | st.integers(1, 400))
        def kill(self, at):
            try:
                with ending_at(at, killed):
                    self.go_on()
            except Killed:
                done["kills"] += 1

        @rule(how=st.sampled_from([*DAMAGE]), place=PLACE, at=PLACE)
        def damage(self, how, place, at):
            """Damages runs that have an older checkpoint to fall back to."""
            for run in self.runs():
                saved = [*(run / "checkpoints").glob("[0-9]")]
                if len(saved) < 2:
                    continue
                files = sorted(p for p in max(saved).rglob("*") if p.is_file())
                files = [p for p in files if p.stat().st_size]
                DAMAGE[how](run, max(saved), files[place % len(files)], at)
                (run / "summary.json").unlink(missing_ok=True)
                done["damages"] += 1
                self.finish()

        @rule(more=st.integers(1, 2))
        def extend(self, more):
            self.rounds = min(LONGEST, self.rounds + more)

        @rule()
        def finish(self):
            """Goes on to the end, whose bits are those of an undisturbed run."""
            self.go_on()
            assert len(self.runs()) == 1 + self.sweeps
            for run in self.runs():
                seed = json.loads((run / "config.json").read_text())["seed"]
                assert_whole(run, self.whole(seed))

        def whole(self, seed):
            key = f"{self.case}-{self.rounds}-{seed}"
            if key not in wholes:
                attacked.run(self.config(seed), folder / key)
                wholes[key] = attacked.end(folder / key)
                shutil.rmtree(folder / key)
            return wholes[key]

        def teardown(self):
            if self.path:
                self.finish()
                shutil.rmtree(self.path)

    return Life


def kills(each: int):
    """Yields cases and calls, which are spread over a run."""
    for i, case in enumerate(CASES):
        for k in range(each):
            yield case, 1 + (k * LEAST + i * LEAST // len(CASES)) // each


def kill(c, path: Path, at: int, delay: float):
    """Ends a run in a forked process at a call, or seconds after it."""
    child = os.fork()
    if not child:
        die = functools.partial(os.kill, os.getpid(), signal.SIGKILL)

        def end():
            threading.Timer(delay, die).start() if delay else die()

        with ending_at(at, end):
            attacked.run(c, path)
        time.sleep(2 * delay)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status


def main(folder: Path, each: int):
    file = attacked.data(folder / "toy.npz")
    Figure.savefig = attacked.save_unrendered
    for i, (case, at) in enumerate(kills(each)):  # JAX must not have started yet
        delay = i % 2 * random.uniform(0.001, 0.02)
        kill(config(case, file), folder / f"{case}-{at}", at, delay)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

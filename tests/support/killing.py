"""Kills runs by SIGKILL at system calls that write: `python killing.py FOLDER EACH`.

Prints JSON: how many runs were killed, and those that lost bits.
"""

import functools
import io
import json
import os
import shutil
import signal
import sys
from pathlib import Path

LEAST = 100  # lower bound on the calls of a run
CALLS = ("replace", "rename", "fsync", "unlink", "remove", "rmdir", "mkdir")


class Killed(BaseException):
    """Stands for the end of the process."""


class Shim:
    """Counts calls that write, and ends the process at one of them.

    `really`: by SIGKILL; otherwise this call and all later ones raise `Killed`.
    """

    def __init__(self, really: bool):
        self.really, self.at, self.on = really, 0, False
        self.seen: list[str] = []
        for name in CALLS:
            setattr(os, name, self.counted(name, getattr(os, name)))
        opened = io.open

        @functools.wraps(opened)
        def open_(file, mode="r", *args, **kwargs):
            if set("wax+") & set(mode):
                self.hit(f"open {Path(str(file)).name}")
            return opened(file, mode, *args, **kwargs)

        io.open = open_

    def counted(self, name, call):
        @functools.wraps(call)
        def f(*args, **kwargs):
            self.hit(f"{name} {Path(str(args[0])).name}")
            return call(*args, **kwargs)

        return f

    def hit(self, what):
        if not self.on:
            return
        self.seen.append(what)
        if self.at and len(self.seen) >= self.at:
            if self.really:
                os.kill(os.getpid(), signal.SIGKILL)
            raise Killed(what)

    def arm(self, at: int):
        self.at, self.on, self.seen = at, True, []


def kill(shim, c, path, at):
    """Ends a run in a forked process at a call."""
    child = os.fork()
    if not child:
        shim.arm(at)
        attacked.run(c, path)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status


def wrong_after(c, path, want) -> str:
    """Resumes to the end; returns the difference from a run that was never killed."""
    try:
        attacked.run(c, path)
    except Exception as e:
        return f"{type(e).__name__}: {e}"
    left = [p.name for p in path.rglob("*") if p.suffix in (".partial", ".new")]
    kept = sorted(p.name for p in (path / "checkpoints").iterdir())
    if left or kept != ["1", "2", "3"]:
        return f"left: {left} {kept}"
    return "" if attacked.end(path) == want else "other numbers"


def main(folder: Path, each: int):
    shim = Shim(really=True)
    file, failed = attacked.data(folder / "toy.npz"), {}
    attacked.unrendered()
    cases = {method: attacked.small(method, file) for method in attacked.METHODS}
    off = {**attacked.SAMPLED, "clients__store": "disk"}
    cases["disk"] = attacked.small("fedproto", file, **off)
    calls = {}
    for i, name in enumerate(cases):
        calls[name] = [1 + (k * LEAST + i * LEAST // 6) // each for k in range(each)]
    for name, c in cases.items():  # JAX must not have started yet in this process
        for at in calls[name]:
            shutil.rmtree(folder / "cache" / "jaxproto" / "data", ignore_errors=True)
            kill(shim, c, folder / f"{name}-{at}", at)
    attacked.quick()
    for name, c in cases.items():
        shim.arm(0)
        attacked.run(c, folder / name)
        shim.on = False
        assert len(shim.seen) >= LEAST, len(shim.seen)
        want = attacked.end(folder / name)
        for at in calls[name]:
            path = folder / f"{name}-{at}"
            if wrong := wrong_after(c, path, want):
                failed[path.name] = wrong
            else:
                shutil.rmtree(path)
    tried = sum(map(len, calls.values()))
    sys.stdout.write(json.dumps({"tried": tried, "failed": failed}) + "\n")


if __name__ == "__main__":
    from jaxproto.data.readers import npz
    from support import attacked

    npz.LARGE = 0  # the data are kept decoded, however small
    main(Path(sys.argv[1]), int(sys.argv[2]))

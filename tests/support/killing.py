"""Kills runs at system calls that write: `python killing.py HOW FOLDER EACH`.

HOW is `here`: the call and all later ones raise what nothing catches, in this process;
or `really`: SIGKILL to a forked one. Prints JSON: how many, and those that lost bits.
"""

import contextlib
import functools
import io
import json
import os
import shutil
import signal
import sys
from pathlib import Path

LEAST = 100  # lower bound on the calls of a run, used where they are not counted
CALLS = ("replace", "rename", "fsync", "unlink", "remove", "rmdir", "mkdir")


class Killed(BaseException):
    """Stands for the end of the process."""


class Shim:
    """Counts calls that write, and ends the process at one of them."""

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


def kill_here(shim, c, path, at) -> str:
    """Ends a run in this process at a call; returns the name of the call."""
    shim.arm(at)
    with contextlib.suppress(Killed):
        attacked.run(c, path)
    shim.on = False
    return shim.seen[min(at, len(shim.seen)) - 1]


def kill_really(shim, c, path, at) -> str:
    """Ends a run in a forked process by SIGKILL at a call; returns its number."""
    child = os.fork()
    if not child:
        shim.arm(at)
        attacked.run(c, path)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL, status
    return str(at)


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


def main(how: str, folder: Path, each: int):
    shim = Shim(how == "really")
    file, tried, failed, begun = attacked.data(folder / "toy.npz"), 0, {}, []
    kill = kill_really if how == "really" else kill_here
    attacked.quick() if how == "here" else attacked.unrendered()
    cases = {method: attacked.small(method, file) for method in attacked.METHODS}
    off = {**attacked.SAMPLED, "clients__store": "disk"}
    cases["disk"] = attacked.small("fedproto", file, **off)
    for i, (name, c) in enumerate(cases.items()):
        total = LEAST
        if how == "here":
            attacked.run(c, folder / f"{name}-warm")
            shim.arm(0)
            attacked.run(c, folder / name)
            shim.on, total = False, len(shim.seen)
            assert total >= LEAST, total
        for k in range(each):
            path = folder / f"{name}-{k}"
            at = 1 + (k * total + i * total // 6) // each
            shutil.rmtree(folder / "cache" / "jaxproto" / "data", ignore_errors=True)
            where = kill(shim, c, path, at)
            begun.append((name, c, path, f"{name} at {at} ({where})"))
            if how == "here":
                check(folder, begun.pop(), failed)
            tried += 1
    if how == "really":
        attacked.quick()
        for name, c in cases.items():
            attacked.run(c, folder / name)
        for case in begun:
            check(folder, case, failed)
    sys.stdout.write(json.dumps({"tried": tried, "failed": failed}) + "\n")


def check(folder, one, failed):
    name, c, path, where = one
    wrong = wrong_after(c, path, attacked.end(folder / name))
    if wrong:
        failed[where] = wrong
    else:
        shutil.rmtree(path)


if __name__ == "__main__":
    from jaxproto.data.readers import npz
    from support import attacked

    npz.LARGE = 0  # the data are kept decoded, however small
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))

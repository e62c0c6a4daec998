"""Damage to the files of a run's folder, every command that reads it, and a fuzzer."""

import contextlib
import io
import json
import os
import re
import resource
import shutil
import signal
import tempfile
import time
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    rule,
    run_state_machine_as_test,
)

import jaxproto
from jaxproto import cli
from jaxproto.errors import UserError
from jaxproto.storage.default_workdir import default_workdir
from support import attacked, quick

DEEP = b'{"round":' * 100_000  # too deep to be read
HUGE = 20 * 2**30  # bytes of a sparse file
ROOM = 4 * 2**30  # bytes of address space that a command may take
SECONDS = 300  # of a command; machines may be busy
SIGNS = [  # JSON that no run has written
    *("NaN", "-Infinity", "1e400", "1" + "0" * 400, str(2**63), "-1", "1e308", "0.5"),
    *("null", "true", '"x"', '""', "[]", "{}", "[[]]", '{"a.b": 1}', '{"": {"": {}}}'),
    *(r'"\ud800"', r'"\u001b[2J"', r'"\u0000"', '"' + "a" * 300 + '"', "2147483647"),
]


@contextlib.contextmanager
def two_runs(root: Path):
    """Makes finished runs of two seeds; yields their configuration and folders."""
    given = {"file": attacked.data(root / "toy.npz"), "eval__per_client": True}
    both = [attacked.small("fedproto", seed=seed, **given) for seed in (0, 1)]
    folders = [root / default_workdir(c).name for c in both]
    with attacked.quickly(), quick.with_pictures():
        for c, folder in zip(both, folders, strict=True):
            attacked.run(c, folder)
        yield both[0], folders


def copies(folders, to: Path) -> list[Path]:
    """Copies the runs; the first copy is the one to damage."""
    return [Path(shutil.copytree(f, to / f.name, symlinks=True)) for f in folders]


def replace(file: Path, make):
    """Puts something else in the place of a file or folder."""
    if file.is_dir() and not file.is_symlink():
        shutil.rmtree(file)
    else:
        file.unlink(missing_ok=True)
    make(file)


def make_huge(file: Path):
    file.touch()
    os.truncate(file, HUGE)


IRREGULAR = {  # makes what is put in the place of a file
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "endless": lambda file: file.symlink_to("/dev/zero"),
    "full": lambda file: file.symlink_to("/dev/full"),
    "loop": lambda file: file.symlink_to(file.name),
    "dangling": lambda file: file.symlink_to("nowhere"),
    "huge": make_huge,
    "gone": lambda file: None,
}


def with_json(file: Path, place: str | int, sign: str, line: int = 0):
    """Puts a sign in the place of a value, by its dotted path or number, of a line."""
    lines = file.read_text().splitlines()
    lines = lines if file.suffix == ".jsonl" else ["\n".join(lines)]
    root = {"": json.loads(lines[line % len(lines)])}
    spots = dict(_spots(root))
    at = [*spots][place % len(spots)] if isinstance(place, int) else f"..{place}"
    container, key = spots[at]
    container[key] = "A SIGN"
    lines[line % len(lines)] = json.dumps(root[""]).replace('"A SIGN"', sign)
    text = "\n".join(lines) + "\n"
    replace(file, lambda f: f.write_text(text))


def _spots(value, above=""):
    """Yields the path of every value below, with its container and key."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        path = f"{above}.{key}"
        yield path, (value, key)
        if isinstance(inner, dict | list):
            yield from _spots(inner, path)


def damage(file: Path, what: str | bytes | tuple):
    """Puts something irregular, bytes, or JSON at a path in the place of a file."""
    if isinstance(what, tuple):
        with_json(file, *what)
    elif isinstance(what, bytes):
        replace(file, lambda f: f.write_bytes(what))
    else:
        replace(file, IRREGULAR[what])


def command(name, arguments):
    """Runs a command of the command line in this process."""
    cli.call(name, name, [str(a) for a in arguments])


def report(c, runs, out):
    command("report", [*runs, "--prototypes=none", "--out", out / "r.html"])


def pages(c, runs, out):
    command("report", [*runs, "--prototypes=all", "--out", out / "r.html"])


def compared(c, runs, out):
    command("compare", [*runs, "--target=50", "--format=markdown"])


def plotted(kind, *more):
    def plot(c, runs, out):
        (out / "a.png").unlink(missing_ok=True)
        command("plot", [kind, f"--out={out}/a.png", *runs, *more])

    plot.__name__ = f"plot_{kind}"
    return plot


def loaded(c, runs, out):
    run = jaxproto.load(runs[0])
    assert len(repr(run.metrics)) and run.status and run.rounds >= 0
    assert run.partition.train.sum() >= 0


def opened(c, runs, out):
    run = jaxproto.load(runs[0])
    assert len(run.clients) and run.server is not None and run.round >= 0


def leaked(c, runs, out):
    command("leak", ["classes", *runs, "--clients=0"])


def resumed(c, runs, out):
    attacked.run(c, runs[0])


def swept(c, runs, out):
    from jaxproto.lab import sweeps

    attacked.begins(c)
    how = sweeps.SweepOptions("one")
    axes = {"seed": [0, 1]}
    sweeps.sweep(c, axes, runs[0].parent, attacked.Console(file=io.StringIO()), how)


TABLES = [  # of several runs, without checkpoints: one bad run costs its row
    *(report, compared),
    *map(plotted, ("accuracy", "bytes")),
    plotted("until", "--target=50"),
    plotted("accuracy_against_field", "--field=data.clients"),
]
SEVERAL = [*TABLES, pages, leaked]
READERS = [*SEVERAL, plotted("partition"), loaded, opened]
WRITERS = [resumed, swept]


def stamps(folder: Path) -> dict:
    """Returns kind, size and time of a folder and all paths below it."""
    found = {p: p.lstat() for p in [folder, *folder.rglob("*")]}
    return {p: (s.st_mode, s.st_size, s.st_mtime_ns) for p, s in found.items()}


@contextlib.contextmanager
def bounded(seconds=SECONDS):
    """Fails a block that takes too long or too much memory."""

    def late(*_):
        raise AssertionError(f"no answer after {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    signal.alarm(seconds)
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def check(use, c, runs, out: Path) -> str:
    """Calls a command; returns the line that it ended with, "" if all was well.

    In bounded time and memory; the good one of several runs has results; no reader
    changes anything.
    """
    out.mkdir(exist_ok=True)
    runs = runs if use in (*SEVERAL, *WRITERS) else runs[:1]
    before = [stamps(run) for run in runs]
    text, said = io.StringIO(), ""
    with bounded(), contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            use(c, runs, out)
        except SystemExit as end:
            said = str(end.code) if end.code else ""
        except UserError as error:
            said = f"error: {error}"
    one_line = re.fullmatch(r"(error: [^\n]{1,3000})?", said)
    assert one_line or "different conf" in said, said
    if use in SEVERAL and said:  # errors allowed if one of several is bad
        assert re.search("are the same run|share no", said), said
    if use not in WRITERS:
        assert [stamps(run) for run in runs] == before
    return said


PLACE = st.integers(0, 2**19)


def flip(content: bytes, at: int) -> bytes:
    """Flips a bit."""
    changed = bytearray(content)
    if changed:
        changed[at // 8 % len(changed)] ^= 1 << at % 8
    return bytes(changed)


def cut(content: bytes, at: int) -> bytes:
    """Cuts off the end, at least a byte of it."""
    return content[: at % max(1, len(content))]


def fuzz(machine, done: Counter, steps: int, batch: int):
    """Runs a state machine for `FUZZ_SECONDS`; a failure prints its steps.

    The file that FUZZ_COUNTS names, if any, gets a line of what was done; `.ci/run`
    prints it. The clock is looked at between batches of sequences of steps.
    """
    how = settings(
        max_examples=batch,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    until = time.time() + float(os.environ.get("FUZZ_SECONDS", "30"))
    try:
        while time.time() < until:
            run_state_machine_as_test(machine, settings=how)
    finally:
        with open(os.environ.get("FUZZ_COUNTS", os.devnull), "a") as file:
            file.write(f"{machine.__name__}: {dict(done)}\n")


def readable(file: Path) -> bool:  # by the fuzzer: not one of `HUGE` bytes
    return file.is_file() and file.stat().st_size <= 2**24


def machine(made, done: Counter):
    """The machine over copies of the runs; counts what it does."""
    config, folders = made

    class RunFolders(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            self.root = Path(tempfile.mkdtemp())
            self.runs = copies(folders, self.root)

        def teardown(self):
            shutil.rmtree(self.root)

        def file(self, place) -> Path:
            """A file or folder of the run; the ones that every command reads often."""
            found = sorted(self.runs[0].rglob("*"))
            top = [p for p in found if p.parent == self.runs[0]] * 3
            every = top + found or [self.runs[0] / "config.json"]
            return every[place % len(every)]

        @rule(place=PLACE, kind=st.sampled_from(sorted(IRREGULAR)))
        def irregular(self, place, kind):
            damage(self.file(place), kind)

        @rule(place=PLACE, at=PLACE, how=st.sampled_from(["flip", "cut", "foreign"]))
        def bytes(self, place, at, how):
            file, other = self.file(place), self.file(at)
            if not readable(file):
                return
            content = file.read_bytes()
            if how == "foreign":
                content = other.read_bytes() if readable(other) else b""
            else:
                content = (flip if how == "flip" else cut)(content, at)
            damage(file, content)

        @rule(
            name=st.sampled_from(["config.json", "summary.json", "metrics.jsonl"]),
            place=PLACE,
            sign=st.sampled_from(SIGNS),
        )
        def sign(self, name, place, sign):
            file = self.runs[0] / name
            with contextlib.suppress(ValueError, ZeroDivisionError):  # damaged already
                if readable(file):
                    with_json(file, place, sign, place)

        @rule(use=st.sampled_from([*READERS, *WRITERS]))
        def use(self, use):
            said = check(use, config, self.runs, self.root / "out")
            done["commands"] += 1
            done["refused in one line"] += bool(said)

    return RunFolders

"""The folder of a run: whose it is, whether it is finished, who is using it."""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import ml_collections

from jaxproto.config import differences, flatten
from jaxproto.config.fields import MORE, MOVED, STOPPED, extended, resumable
from jaxproto.data import text
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.storage import default_workdir, records
from jaxproto.storage.run_folder import CONFIG, RunFolder, has_begun
from jaxproto.storage.status import Status

VOCABULARY = "vocabulary.txt"
WRITTEN = (
    "*.json",
    "*.jsonl",
    "*.csv",
    "*.txt",
    "plots/*.png",
    "per_client/*.npz",
)  # files of a run


class WorkdirBusy(UserError):
    """Another process is running in the folder."""


class WorkdirLock:
    """A folder held for one process."""

    def __init__(self, path: Path):
        """Knows what is there, and which folders are not."""
        self._path = path
        self._missing = [p for p in (path, *path.parents) if not p.exists()]
        self._there = {p.name for p in path.iterdir()} if path.is_dir() else set()
        self._kept = False

    def keep(self):
        """From here on there is a run, and what it has made stays."""
        self._kept = True

    def leave_nothing(self):
        """Takes away what this start has made, unless it came to a run."""
        if self._kept:
            return
        if self._path.is_dir():
            for made in self._path.iterdir():
                if made.name not in self._there:
                    atomic.remove(made)
        with contextlib.suppress(OSError):  # another start uses it
            for folder in self._missing:
                folder.rmdir()


@contextlib.contextmanager
def lock_workdir(path: Path) -> Iterator[WorkdirLock]:
    """Holds the folder for one process; a start that is refused leaves it as it was.

    Raises:
      UserError: the folder cannot be written or be named so; `WorkdirBusy` if another
        process is running in it.
    """
    default_workdir.check_path(path)
    made = None
    try:
        made = WorkdirLock(path)
        lock = _locked(path)
    except OSError as e:
        if made is not None:
            made.leave_nothing()
        raise UserError(
            f"cannot write to the work directory {path}: {e.strerror}. Choose another "
            "with --workdir."
        ) from e
    with lock:
        atomic.remove_leftovers(path, WRITTEN)
        try:
            yield made
        except Exception:
            made.leave_nothing()
            raise


def _locked(path):
    """The open lock of the folder, which no other start has taken away meanwhile."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        file = path / ".lock"
        lock = file.open("a")  # no change of a finished folder
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as e:
            lock.close()
            raise WorkdirBusy(
                f"another process is running in {path}; wait for it or choose another "
                "folder with --workdir."
            ) from e
        except OSError:
            return lock  # a file system without locks, such as Drive on Colab
        with contextlib.suppress(FileNotFoundError):
            if file.stat().st_ino == os.fstat(lock.fileno()).st_ino:
                return lock
        lock.close()


@contextlib.contextmanager
def exclusive_lock(lock: Path) -> Iterator[None]:
    """Waits until no other process is in a block of the same file, which it makes.

    A process that is killed lets the next one in. Where the file cannot be made, or on
    a file system without locks, it waits for nobody.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            held = stack.enter_context(lock.open("a"))
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def check_config(path: Path, config: ml_collections.ConfigDict):
    """Raises UserError if the folder holds a run of a different configuration.

    More rounds than it was started with are no difference: they are trained after the
    ones that are there. That holds unless a round depends on how many there will be.
    Nor is another rule of early stopping, where one has ended the run.
    """
    run, here = RunFolder.at(path), flatten(config)
    if not run.config:
        return
    free = extended(config, run.config)
    if run.status() is Status.STOPPED_EARLY:
        free |= resumable(config, STOPPED)
    lines = differences({**run.config, **{k: here[k] for k in free}}, here)
    if lines:
        raise UserError(
            f"{path} holds a run of a different configuration:\n  "
            + "\n  ".join(lines)
            + "\nNothing was changed. Choose another folder with --workdir, or give "
            "the values it was started with."
        )


def settings(config: ml_collections.ConfigDict) -> dict:
    """Fields that a checkpoint must have in common with the run that goes on from it.

    Where the data lie may change, when to stop early, and the number of rounds unless
    rounds depend on it.
    """
    free = resumable(config, MORE, STOPPED, MOVED)
    return {k: v for k, v in flatten(config).items() if k not in free}


def expected_rounds(path: Path, config: ml_collections.ConfigDict) -> list[int]:
    """Rounds whose evaluation a run must have, as far as it has come."""
    ended = RunFolder.at(path).summary or {"rounds": 0}
    every = config.eval_every
    last = {config.rounds, ended["rounds"]} - {0}
    return sorted({*range(every, config.rounds + 1, every), *last})


def check_complete(path: Path, config: ml_collections.ConfigDict, rounds: int):
    """Raises UserError if an ended run lacks records of its evaluations."""
    asked = [r for r in expected_rounds(path, config) if r <= rounds]
    found = RunFolder.at(path).covered(asked)
    if found.until < rounds:
        raise UserError(
            f"{path} has ended after {rounds} rounds, but not all of it is there: it "
            f"has {found.why}. Put that file back from a copy, or move the folder away "
            "to run it again."
        )


def save_config(path: Path, config: ml_collections.ConfigDict):
    """Writes `config.json`."""
    records.write_json(path / CONFIG, json.loads(config.to_json()))


def tokens(path: Path) -> tuple[str, ...] | None:
    """The vocabulary of the run that began in the folder; None where there is none."""
    return text.read(path / VOCABULARY) if has_begun(path) else None


def save_tokens(path: Path, tokens: Sequence[str]):
    """Writes `vocabulary.txt`, one token per line, of a run on texts."""
    if tokens:
        text.write(path / VOCABULARY, tokens)

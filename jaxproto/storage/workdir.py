"""Work directory of a run: its lock, and checks of its configuration and records."""

import contextlib
import fcntl
import heapq
import itertools
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
RUN_FILES = "*.json", "*.jsonl", "*.csv", "*.txt", "plots/*.png", "per_client/*.npz"


class WorkdirBusy(UserError):
    """The error if another process is running in the folder."""


class WorkdirLock:
    """A lock of a work directory that can undo a refused start."""

    def __init__(self, path: Path):
        """Lists the existing files, and the folders that do not exist yet."""
        self._path = path
        self._missing = [p for p in (path, *path.parents) if not os.path.exists(p)]
        self._existing = {*os.listdir(path)} if os.path.isdir(path) else set()
        self._keep = False

    def keep(self):
        """Marks the folder as a run's, so that its files stay."""
        self._keep = True

    def leave_nothing(self):
        """Removes what this start has made, unless it became a run."""
        if self._keep:
            return
        if os.path.isdir(self._path):
            for path in self._path.iterdir():
                if path.name not in self._existing:
                    atomic.remove(path)
        for folder in self._missing:
            with contextlib.suppress(OSError):  # another start uses it, or was not made
                folder.rmdir()


@contextlib.contextmanager
def lock_workdir(path: Path) -> Iterator[WorkdirLock]:
    """Locks the folder for one process; a refused start leaves it unchanged.

    Raises:
      UserError: the folder cannot be written, or its path is unusable; `WorkdirBusy` if
        another process is running in it.
    """
    default_workdir.check_path(path)
    workdir_lock = None
    try:
        workdir_lock = WorkdirLock(path)
        lock_file = _lock_file(path)
    except OSError as e:
        if workdir_lock is not None:
            workdir_lock.leave_nothing()
        raise UserError(
            f"cannot write to the work directory {path}: {e.strerror}. Choose another "
            "with --workdir."
        ) from e
    with lock_file:
        atomic.remove_leftovers(path, RUN_FILES)
        try:
            yield workdir_lock
        except Exception:
            workdir_lock.leave_nothing()
            raise


def _lock_file(path):
    """Opens and locks the lock file of a folder."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        file = path / ".lock"
        lock = file.open("a")  # keeps the mtime of a finished folder
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
    """Holds a file lock, which it waits for; the end of a process releases it.

    It does not wait if the file cannot be made, or on a file system without locks.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            file = stack.enter_context(lock.open("a"))
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def check_config(path: Path, config: ml_collections.ConfigDict):
    """Raises UserError if the folder holds a run of a different configuration.

    More rounds than before are allowed unless a round depends on their number. Other
    fields of early stopping are allowed if the run has stopped early.
    """
    run, new = RunFolder.at(path), flatten(config)
    if not run.config:
        return
    free = extended(config, run.config)
    if run.status() is Status.STOPPED_EARLY:
        free |= resumable(config, STOPPED)
    lines = differences({**run.config, **{k: new[k] for k in free}}, new)
    if lines:
        raise UserError(
            f"{path} holds a run of a different configuration:\n  "
            + "\n  ".join(lines)
            + "\nNothing was changed. Choose another folder with --workdir, or give "
            "the values it was started with."
        )


def settings(config: ml_collections.ConfigDict) -> dict:
    """Returns the fields in which a checkpoint must agree with a resumed run.

    The folder of the data and the fields of early stopping may change, and the number
    of rounds unless a round depends on it.
    """
    free = resumable(config, MORE, STOPPED, MOVED)
    return {k: v for k, v in flatten(config).items() if k not in free}


def expected_rounds(path: Path, config: ml_collections.ConfigDict) -> Iterator[int]:
    """Yields the rounds whose evaluation a run must have so far, ascending."""
    summary = RunFolder.at(path).summary or {"rounds": 0}
    every, last = config.eval_every, {config.rounds, summary["rounds"]} - {0}
    return heapq.merge(range(every, config.rounds + 1, every), sorted(last))


def check_complete(path: Path, config: ml_collections.ConfigDict, rounds: int):
    """Raises UserError if an ended run lacks records of its evaluations."""
    due = itertools.takewhile(rounds.__ge__, expected_rounds(path, config))
    coverage = RunFolder.at(path).covered(due)
    if coverage.until < rounds:
        raise UserError(
            f"{path} has ended after {rounds} rounds, but not all of it is there: it "
            f"has {coverage.why}. Put that file back from a copy, or move the folder "
            "away to run it again."
        )


def save_config(path: Path, config: ml_collections.ConfigDict):
    """Writes `config.json`."""
    records.write_json(path / CONFIG, json.loads(config.to_json()))


def tokens(path: Path) -> tuple[str, ...] | None:
    """Returns the vocabulary of the run in a folder; None where there is none."""
    return text.read(path / VOCABULARY) if has_begun(path) else None


def save_tokens(path: Path, tokens: Sequence[str]):
    """Writes `vocabulary.txt`, one token per line, of a run on texts."""
    if tokens:
        text.write(path / VOCABULARY, tokens)

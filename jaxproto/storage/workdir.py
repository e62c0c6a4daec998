"""Run directory: lock, configuration check, and completeness of records."""

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
    """Error of a folder that another process is using."""


class WorkdirLock:
    """Lock of a folder for one process."""

    def __init__(self, path: Path):
        """Lists the files of the folder, and the parents that do not exist."""
        self._path = path
        self._missing = [p for p in (path, *path.parents) if not p.exists()]
        self._before = {p.name for p in path.iterdir()} if path.is_dir() else set()
        self._kept = False

    def keep(self):
        """Keeps the files of this start, as the run has begun."""
        self._kept = True

    def leave_nothing(self):
        """Removes the files of this start, unless the run has begun."""
        if self._kept:
            return
        if self._path.is_dir():
            for file in self._path.iterdir():
                if file.name not in self._before:
                    atomic.remove(file)
        with contextlib.suppress(OSError):  # another start uses it
            for folder in self._missing:
                folder.rmdir()


@contextlib.contextmanager
def lock_workdir(path: Path) -> Iterator[WorkdirLock]:
    """Locks a folder for one process; a refused start leaves it unchanged.

    Raises:
      UserError: the folder cannot be written or has an invalid path; `WorkdirBusy` if
        another process uses it.
    """
    default_workdir.check_path(path)
    held = None
    try:
        held = WorkdirLock(path)
        lock = _locked(path)
    except OSError as e:
        if held is not None:
            held.leave_nothing()
        raise UserError(
            f"cannot write to the work directory {path}: {e.strerror}. Choose another "
            "with --workdir."
        ) from e
    with lock:
        atomic.remove_leftovers(path, WRITTEN)
        try:
            yield held
        except Exception:
            held.leave_nothing()
            raise


def _locked(path):
    """Returns the open lock of the folder, in a file that still exists."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        file = path / ".lock"
        lock = file.open("a")  # does not change a finished folder
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
    """Waits until no other process is in a block with this lock file.

    A killed process releases the lock. It does not wait if the file cannot be made, or
    on a file system without locks.
    """
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            held = stack.enter_context(lock.open("a"))
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def check_config(path: Path, config: ml_collections.ConfigDict):
    """Raises UserError if the folder holds a run of another configuration.

    More rounds are no difference, unless a round depends on their number. Nor is
    another rule of early stopping, if one has ended the run.
    """
    run, now = RunFolder.at(path), flatten(config)
    if not run.config:
        return
    free = extended(config, run.config)
    if run.status() is Status.STOPPED_EARLY:
        free |= resumable(config, STOPPED)
    lines = differences({**run.config, **{k: now[k] for k in free}}, now)
    if lines:
        raise UserError(
            f"{path} holds a run of a different configuration:\n  "
            + "\n  ".join(lines)
            + "\nNothing was changed. Choose another folder with --workdir, or give "
            "the values it was started with."
        )


def settings(config: ml_collections.ConfigDict) -> dict:
    """Returns the fields that must be equal for a run to resume from a checkpoint.

    Location of the data and early stopping may change, and the number of rounds unless
    rounds depend on it.
    """
    free = resumable(config, MORE, STOPPED, MOVED)
    return {k: v for k, v in flatten(config).items() if k not in free}


def expected_rounds(path: Path, config: ml_collections.ConfigDict) -> list[int]:
    """Returns the rounds after which the run evaluates."""
    ended = RunFolder.at(path).summary or {"rounds": 0}
    every = config.eval_every
    last = {config.rounds, ended["rounds"]} - {0}
    return sorted({*range(every, config.rounds + 1, every), *last})


def check_complete(path: Path, config: ml_collections.ConfigDict, rounds: int):
    """Raises UserError if an ended run lacks records."""
    evaluated = [r for r in expected_rounds(path, config) if r <= rounds]
    covered = RunFolder.at(path).covered(evaluated)
    if covered.until < rounds:
        raise UserError(
            f"{path} has ended after {rounds} rounds, but not all of it is there: it "
            f"has {covered.why}. Put that file back from a copy, or move the folder "
            "away to run it again."
        )


def save_config(path: Path, config: ml_collections.ConfigDict):
    """Writes `config.json`."""
    records.write_json(path / CONFIG, json.loads(config.to_json()))


def tokens(path: Path) -> tuple[str, ...] | None:
    """Reads the vocabulary of the run in the folder; None if there is none."""
    return text.read(path / VOCABULARY) if has_begun(path) else None


def save_tokens(path: Path, tokens: Sequence[str]):
    """Writes `vocabulary.txt`, one token per line, of a run on texts."""
    if tokens:
        text.write(path / VOCABULARY, tokens)

"""Work directory of a run: its lock, and checks of its configuration and records."""

import contextlib
import heapq
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import ml_collections

from jaxproto.config import differences, flatten
from jaxproto.config.fields import FREE, MORE, MOVED, STOPPED, extended, resumable
from jaxproto.config.optimizers import needs_rounds
from jaxproto.data import text
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.storage import default_workdir, file_lock, provenance, records
from jaxproto.storage.run_folder import (
    CONFIG,
    METRICS,
    NODES,
    PROVENANCE,
    SUMMARY,
    RunFolder,
    has_begun,
)
from jaxproto.storage.status import Status

LOCK, VOCABULARY = ".lock", "vocabulary.txt"
STARTED = (  # files that a start may write before `CONFIG`
    "partition.csv",
    "indices.csv",
    "classes.json",
    VOCABULARY,
    "agreement.json",
    "faults.jsonl",
    PROVENANCE,
)
RUN_FILES = CONFIG, SUMMARY, METRICS, NODES, *STARTED, "metrics.csv"
RUN_FOLDERS = "checkpoints", "clients.scratch", "per_client", "plots", "tensorboard"
# patterns of files that are replaced atomically
REPLACED = *RUN_FILES, "plots/*.png", "per_client/*.npz"


class WorkdirBusy(UserError):
    """Error if another process is running in the folder."""


class WorkdirLock:
    """A lock of a work directory that can undo a refused start."""

    def __init__(self, path: Path):
        """Lists the folders and files that do not exist yet."""
        self._path = path
        self._new_folders = [p for p in (path, *path.parents) if not os.path.exists(p)]
        names = LOCK, CONFIG, *STARTED
        self._new_files = [n for n in names if not os.path.exists(path / n)]
        self._keep = False

    def keep(self):
        """Marks the folder as a run's, so that its files stay."""
        self._keep = True

    def write(self, name: str, content: bytes):
        """Writes a new file, which `leave_nothing` removes."""
        if not os.path.exists(self._path / name):
            self._new_files.append(name)
            atomic.write(self._path / name, content)

    def leave_nothing(self):
        """Removes the files that this start has made, unless it became a run."""
        if self._keep:
            return
        for name in self._new_files:
            atomic.remove(self._path / name)
        for folder in self._new_folders:
            with contextlib.suppress(OSError):  # used by another start, or never made
                folder.rmdir()


@contextlib.contextmanager
def lock_workdir(path: Path) -> Iterator[WorkdirLock]:
    """Locks the folder for one process; a refused start leaves it unchanged.

    Raises:
      UserError: the folder cannot be written, its path is unusable, or it has foreign
        files; `WorkdirBusy` if another process is running in it.
    """
    default_workdir.check_path(path)
    workdir_lock = None
    with contextlib.ExitStack() as stack:
        try:
            _check_foreign(path)
            workdir_lock = WorkdirLock(path)
            _lock_file(path, stack)
        except OSError as e:
            if workdir_lock is not None:
                workdir_lock.leave_nothing()
            raise UserError(
                f"cannot write to the work directory {path}: {e.strerror}. Choose "
                "another with --workdir."
            ) from e
        atomic.remove_leftovers(path, REPLACED)
        try:
            yield workdir_lock
        except Exception:
            workdir_lock.leave_nothing()
            raise


def _check_foreign(path: Path):
    """Raises UserError if a folder without a run has files of a run, or other runs.

    A start that was killed before its configuration was saved leaves `LOCK` beside the
    names of `STARTED`.
    """
    if os.path.lexists(path / CONFIG) or not path.exists():
        return
    if why := _why_foreign(path):
        raise UserError(
            f"the work directory {path} {why}. Nothing was changed. Choose another "
            "with --workdir."
        )


def _why_foreign(path: Path) -> str:
    names = *RUN_FILES, *RUN_FOLDERS
    foreign = set(names).difference(STARTED if (path / LOCK).exists() else ())
    if found := [name for name in sorted(foreign) if os.path.lexists(path / name)]:
        return f"has {', '.join(found)}, but no run: {CONFIG} is missing"
    if path.resolve() == path.resolve().parent:
        return "is the root of the file system"
    for lock in (*path.glob(f"*/{LOCK}"), *path.glob(f"*/*/{LOCK}")):
        if any((lock.parent / name).exists() for name in names):
            return f"has the folder of another run inside: {lock.parent}"
    return ""


def _lock_file(path: Path, stack: contextlib.ExitStack):
    """Opens and locks the lock file of a folder until the stack closes."""
    while True:
        path.mkdir(parents=True, exist_ok=True)
        lock_path = path / LOCK
        with contextlib.ExitStack() as attempt:
            # keeps the folder's mtime
            file = attempt.enter_context(lock_path.open("a+b"))
            try:
                attempt.enter_context(file_lock.locked(file))
            except file_lock.Held as e:
                raise WorkdirBusy(
                    f"{e} is running in {path}; wait for it or choose another folder "
                    "with --workdir."
                ) from e
            with contextlib.suppress(FileNotFoundError):  # a refused start removed it
                if lock_path.stat().st_ino == os.fstat(file.fileno()).st_ino:
                    stack.push(attempt.pop_all())
                    return


def check_config(
    path: Path, config: ml_collections.ConfigDict, same_code: bool = False
):
    """Raises UserError if the folder holds a run of another configuration or code.

    More rounds than before are allowed unless a round depends on their number. Other
    fields of early stopping are allowed if the run has stopped early.

    Args:
      same_code: whether other code of the user is allowed.
    """
    run, new = RunFolder.at(path), flatten(config)
    if not run.config:
        return
    changeable = extended(config, run.config) | resumable(config, FREE)
    if run.status() is Status.STOPPED_EARLY:
        changeable |= resumable(config, STOPPED)
    if config.data.data_dir == str(path.absolute()):  # of arrays; the folder has moved
        changeable |= resumable(config, MOVED)
    lines = differences({**run.config, **{k: new[k] for k in changeable}}, new)
    if lines:
        field = needs_rounds(config.method.name, config.optimizer.schedule)
        longer = field and new["rounds"] > run.config["rounds"]
        why = f"\nWith {field} every round depends on `rounds`: it cannot be raised."
        raise UserError(
            f"{path} holds a run of a different configuration:\n  "
            + "\n  ".join(lines)
            + (why if longer else "")
            + "\nNothing was changed. Choose another folder with --workdir, or give "
            "the values it was started with."
        )
    provenance.check(run, config, same_code)


def settings(config: ml_collections.ConfigDict) -> dict:
    """Returns the fields in which a checkpoint must agree with a resumed run.

    The folder of the data and the fields of early stopping may change, and the number
    of rounds unless a round depends on it.
    """
    changeable = resumable(config, MORE, STOPPED, MOVED, FREE)
    return {k: v for k, v in flatten(config).items() if k not in changeable}


def expected_rounds(path: Path, config: ml_collections.ConfigDict) -> Iterator[int]:
    """Yields the rounds after which a run is evaluated, done or planned, ascending."""
    summary = RunFolder.at(path).summary or {"rounds": 0}
    every, ends = config.eval_every, {config.rounds, summary["rounds"]} - {0}
    return heapq.merge(range(every, config.rounds + 1, every), sorted(ends))


def check_complete(path: Path, config: ml_collections.ConfigDict, rounds: int):
    """Raises UserError if an ended run lacks records of its evaluations."""
    due = itertools.takewhile(rounds.__ge__, expected_rounds(path, config))
    coverage = records.coverage(path / METRICS, due)
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

"""Runs that a command names, without those that cannot be read."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from jaxproto.errors import UserError, escape_unprintable
from jaxproto.storage.run_folder import RunFolder, run_folders

T = TypeVar("T")
R = TypeVar("R")


def read_all(runs: Iterable[T], read: Callable[[T], R]) -> list[R]:
    """Returns what `read` makes of each run; prints why it leaves one out.

    Raises:
      UserError: none of the runs can be read; the error is that of the first.
    """
    results, errors = list[R](), list[tuple[T, UserError]]()
    for run in runs:
        try:
            results.append(read(run))
        except UserError as e:
            errors.append((run, e))
    if errors and not results:
        raise errors[0][1]
    for run, error in errors:
        line = escape_unprintable(f"{getattr(run, 'path', run)}: {error}")
        sys.stderr.write(f"left out: {line}\n")
    return results


def find_runs(workdirs: Iterable[str | Path]) -> list[Path]:
    """Returns the folders of runs; of a folder of runs, such as a sweep's, each run.

    Folders without a run are skipped with a message. If none has a run, they stay, and
    reading them raises the error.
    """
    found = [(Path(path), run_folders(Path(path))) for path in workdirs]
    runs = [run for _, some in found for run in some]
    for path, some in found:
        if runs and not some:
            sys.stderr.write(f"skipped, as it holds no run: {path}\n")
    return runs or [path for path, _ in found]


def read_run(path, name: str = "") -> RunFolder:
    """Reads configuration, summary and records of a run.

    Raises:
      UserError: one of these files is damaged, or the folder is not that of a run.
    """
    run = RunFolder.read(path, name)
    _ = run.records
    return run


def read_finished_run(path, name: str = "") -> RunFolder:
    """Reads a run as `read_run` does, with a summary of its results.

    Raises:
      UserError: it is not finished, or `read_run` raises it.
    """
    run = read_run(path, name)
    _ = run.results
    return run


def read_evaluated_run(path, name: str = "") -> RunFolder:
    """Reads a run as `read_run` does, with at least one record.

    Raises:
      UserError: it has none, or `read_run` raises it.
    """
    run = read_run(path, name)
    run.evaluations()
    return run

"""Runs that a command names, without those that cannot be read."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from jaxproto.errors import UserError, escape_unprintable
from jaxproto.storage import packed_runs as packed_runs  # registers its finder
from jaxproto.storage.run_folder import RunFolder, run_folders

T = TypeVar("T")
R = TypeVar("R")


def read_all(runs: Iterable[T], read: Callable[[T], R]) -> list[R]:
    """Returns `read(run)` for each run; prints why a run is left out.

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
    """Returns the folders of runs; for a folder such as a sweep's, those of its runs.

    Folders without a run are skipped with a message. If none has a run, all are
    returned, and reading them raises the error.
    """
    pairs = [(Path(path), run_folders(Path(path))) for path in workdirs]
    runs = [run for _, folders in pairs for run in folders]
    for path, folders in pairs:
        if runs and not folders:
            sys.stderr.write(f"skipped, as it holds no run: {path}\n")
    return runs or [path for path, _ in pairs]


def read_run(path, name: str = "", needs: str = "") -> RunFolder:
    """Reads configuration, summary and records of a run.

    Args:
      path: Work directory.
      name: Label of the run among others.
      needs: "results", a summary of a finished run; "evaluations", at least one
        record; "", neither.

    Raises:
      UserError: one of these files is damaged or lacks what is needed, or the folder is
        not that of a run.
    """
    run = RunFolder.read(path, name)
    _ = run.records
    if needs == "results":
        _ = run.results
    if needs == "evaluations":
        run.evaluations()
    return run

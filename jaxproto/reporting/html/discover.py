"""Runs that a command names: their folders, a folder of them, a sweep."""

import csv
import io
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jaxproto.errors import UserError, escape_unprintable
from jaxproto.io import atomic
from jaxproto.reporting import compare, leave_out
from jaxproto.reporting.figures import arguments
from jaxproto.storage.run_folder import RunFolder, is_run

TABLE = "sweep.csv"  # of a sweep that has ended: a column names the cells' folders


class SkippedRun(NamedTuple):
    """Something that was named and is not on the page."""

    path: str
    why: str

    @classmethod
    def of(cls, path: Path, why: UserError | OSError | str) -> "SkippedRun":
        """Returns the path with a reason that readers understand."""
        if isinstance(why, OSError):
            why = f"it cannot be read: {why.strerror or why}"
        return cls(escape_unprintable(str(path)), str(why))


def discover_runs(
    workdirs: Sequence[str | Path],
) -> tuple[list[RunFolder], list[SkippedRun]]:
    """Reads every run that the work directories name, each once.

    Args:
      workdirs: Folders of runs, or folders that hold some, as that of a sweep.

    Returns:
      the runs, and what cannot be read or is the same run again.

    Raises:
      UserError: none of them can be read.
    """
    skipped, paths = list[SkippedRun](), dict[Path, Path]()
    for workdir in map(Path, workdirs):
        try:
            for path in run_folders(workdir):
                paths.setdefault(path.resolve(), path)
        except (UserError, OSError) as e:
            skipped.append(SkippedRun.of(workdir, e))
    by_settings: dict[str, RunFolder] = {}
    for name, path in arguments.by_folder_name(list(paths.values())).items():
        try:
            run = leave_out.read_run(path, escape_unprintable(name))
        except (UserError, OSError) as e:
            skipped.append(SkippedRun.of(path, e))
            continue
        (group,) = compare.group_by_seed([run])
        key = json.dumps([group.config, run.config["seed"]], sort_keys=True)
        if (first := by_settings.setdefault(key, run)) is not run:
            why = f"it is the same run as {first.name}: settings and seed agree"
            skipped.append(SkippedRun.of(path, why))
    if not by_settings:
        reasons = "; ".join(why for _, why in skipped) or "no work directory was given"
        raise UserError(f"there is no run to report: {reasons}")
    return list(by_settings.values()), skipped


def run_folders(path: Path) -> list[Path]:
    """Returns the folders of the runs that a path names.

    Raises:
      UserError: it names none.
      OSError: it cannot be looked into.
    """
    if is_run(path):
        return [path]
    inside = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    folders = [p for p in inside if is_run(p)] + _listed(path)
    if not folders:
        raise UserError(
            f"{path} holds no run: give work directories, such as "
            "runs/protonorm-digits-seed0, or a folder of them, such as that of a sweep."
        )
    return folders


def _listed(folder: Path) -> list[Path]:
    """Returns the folders that the table of a sweep names.

    Their paths are as the sweep saw them, or begin where `sweeps/` is.
    """
    file = folder / TABLE
    if not os.path.lexists(file):
        return []
    try:
        rows = csv.DictReader(io.StringIO(atomic.read(file).decode(), newline=""))
        names = dict.fromkeys(row.get("workdir") for row in rows)
        if any("\0" in name for name in names if name):
            raise ValueError("a path has a NUL byte")
    except (OSError, ValueError, csv.Error) as e:
        raise UserError(
            f"{file} is no table of a sweep ({e}): give the folders of its cells."
        ) from e
    root = folder.resolve().parent.parent
    moved = {Path(name): root / name for name in names if name}
    return [
        other if not path.exists() and other.exists() else path
        for path, other in moved.items()
    ]

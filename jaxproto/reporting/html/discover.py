"""Which runs a command names: their folders, a folder of them, a sweep."""

import csv
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from jaxproto.errors import UserError, escape_unprintable
from jaxproto.reporting import compare
from jaxproto.reporting.figures import arguments
from jaxproto.storage.run_folder import RunFolder, is_run

TABLE = "sweep.csv"  # of a sweep that has ended: a column names the cells' folders


class SkippedRun(NamedTuple):
    """Something that was named and is not on the page."""

    path: str
    why: str


class DiscoveredRuns(NamedTuple):
    """The runs that are on the page, and what is not."""

    runs: tuple[RunFolder, ...]
    left_out: tuple[SkippedRun, ...]


def discover_runs(workdirs: Sequence[str | Path]) -> DiscoveredRuns:
    """Reads every run that the work directories name.

    Args:
      workdirs: of runs, or folders that hold some, as that of a sweep. One that is
        named twice is there once.

    Raises:
      UserError: none of them can be read.
    """
    left: list[SkippedRun] = []
    paths: dict[Path, Path] = {}
    for given in map(Path, workdirs):
        try:
            for path in run_folders(given):
                paths.setdefault(path.resolve(), path)
        except (UserError, OSError) as e:
            left.append(SkippedRun(escape_unprintable(str(given)), _why(e)))
    named = arguments.by_folder_name(list(paths.values()))
    runs = list(_read(named, left))
    if not runs:
        told = "; ".join(why for _, why in left) or "no work directory was given"
        raise UserError(f"there is no run to report: {told}")
    return DiscoveredRuns(tuple(_different(runs, left)), tuple(left))


def run_folders(path: Path) -> list[Path]:
    """The folders of the runs that a path names.

    Raises:
      UserError: it names none.
      OSError: it cannot be looked into.
    """
    if is_run(path):
        return [path]
    inside = sorted(p for p in path.iterdir() if p.is_dir()) if path.is_dir() else []
    cells = [p for p in inside if is_run(p)] + _listed(path)
    if not cells:
        raise UserError(
            f"{path} holds no run: give work directories, such as "
            "runs/protonorm-digits-seed0, or a folder of them, such as that of a sweep."
        )
    return cells


def _listed(folder: Path) -> list[Path]:
    """The folders that the table of a sweep names."""
    file = folder / TABLE
    if not file.is_file():
        return []
    try:
        with file.open(newline="") as lines:
            names = dict.fromkeys(
                row.get("workdir") or "" for row in csv.DictReader(lines)
            )
    except (ValueError, csv.Error) as e:
        raise UserError(
            f"{file} is no table of a sweep ({e}): give the folders of its cells."
        ) from e
    return [_place(folder, name) for name in names if name]


def _place(folder: Path, name: str) -> Path:
    """Where a cell is: as it was named, or from where `sweeps/` is."""
    other = folder.resolve().parent.parent / name
    return other if not Path(name).exists() and other.exists() else Path(name)


def _read(named: dict[str, Path], left: list[SkippedRun]) -> Iterable[RunFolder]:
    """The runs that can be read; the others are left out."""
    for name, path in named.items():
        try:
            run = RunFolder.read(path, escape_unprintable(name))
            _ = run.records  # read here, where a damaged one can be left out
            yield run
        except (UserError, OSError) as e:
            left.append(SkippedRun(escape_unprintable(str(path)), _why(e)))


def _different(
    runs: Sequence[RunFolder], left: list[SkippedRun]
) -> Iterable[RunFolder]:
    """The first of runs that agree in every setting and the seed."""
    there: dict[str, RunFolder] = {}
    for one in runs:
        (group,) = compare.group_by_seed([one])
        key = json.dumps([group.config, one.config["seed"]], sort_keys=True)
        if first := there.get(key):
            same = f"it is the same run as {first.name}: settings and seed agree"
            left.append(SkippedRun(escape_unprintable(str(one.path)), same))
            continue
        there[key] = one
        yield one


def _why(error: UserError | OSError) -> str:
    if isinstance(error, OSError):
        return f"it cannot be read: {error.strerror or error}"
    return str(error)

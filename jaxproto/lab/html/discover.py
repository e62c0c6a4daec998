"""Runs that a command names by their folders, a folder of them, or that of a sweep."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jaxproto.errors import UserError, escape_unprintable
from jaxproto.lab import leave_out
from jaxproto.lab.compare import run_groups
from jaxproto.lab.figures import arguments
from jaxproto.storage.run_folder import RunFolder, run_folders


class SkippedRun(NamedTuple):
    """Path that the command names and that is not on the page."""

    path: str
    why: str


def discover_runs(
    workdirs: Sequence[str | Path],
) -> tuple[list[RunFolder], list[SkippedRun]]:
    """Returns every run that the work directories name, and the paths left out.

    These cannot be read, or are the same run again.

    Raises:
      UserError: none of them can be read.
    """
    skipped, paths = list[SkippedRun](), dict[Path, Path]()

    def skip(path: Path, why: UserError | OSError | str):
        if isinstance(why, OSError):
            why = f"it cannot be read: {why.strerror or why}"
        skipped.append(SkippedRun(escape_unprintable(str(path)), str(why)))

    for workdir in map(Path, workdirs):
        try:
            folders = run_folders(workdir)
        except UserError as e:
            skip(workdir, e)
            continue
        if not folders:
            why = f"{workdir} holds no run: give work directories, or folders of them."
            skip(workdir, why)
        for path in folders:
            paths.setdefault(path.resolve(), path)
    runs: dict[tuple[str, int], RunFolder] = {}
    for name, path in arguments.by_folder_name(list(paths.values())).items():
        try:
            run = leave_out.read_run(path, escape_unprintable(name))
        except (UserError, OSError) as e:
            skip(path, e)
            continue
        key = run_groups.settings_key(run), run.config["seed"]
        if (first := runs.setdefault(key, run)) is not run:
            skip(path, f"it is the same run as {first.name}: settings and seed agree")
    if not runs:
        reasons = "; ".join(why for _, why in skipped) or "no work directory was given"
        raise UserError(f"there is no run to report: {reasons}")
    return list(runs.values()), skipped

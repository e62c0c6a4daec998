"""Folder of a run: its configuration, summary, records and status.

All code that reads the folder of a run uses `RunFolder`, so that damaged, missing and
foreign files have one message each.
"""

import csv
import dataclasses
import functools
import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

from jaxproto.config import upgrade_saved
from jaxproto.errors import UserError, first_few
from jaxproto.io import atomic
from jaxproto.io.json_files import Damaged, read_json
from jaxproto.storage import schemas
from jaxproto.storage.records import read, read_last, record_error
from jaxproto.storage.status import Status, status_of

CONFIG, SUMMARY, METRICS = "config.json", "summary.json", "metrics.jsonl"
NODES = "nodes.json"  # of a run whose clients are processes of their own
PROVENANCE = "provenance.json"  # see `storage/provenance.py`
TABLE = "sweep.csv"  # of a sweep that has ended: a column names the cells' folders
# Functions that return where the files of a path are, if not there, or None
FINDERS: list[Callable[[Path], Path | None]] = []


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """Contents of a run's folder at the time of reading.

    Attributes:
      path: the folder as it was named.
      folder: the folder with the files; not `path` where a function of `FINDERS` has
        found them elsewhere.
      config: the flat configuration, with later fields at their defaults; empty where
        no run has begun.
      summary: summary of the run; None until it has ended.
      on_nodes: whether the clients were nodes with processes of their own.
      name: label among other runs, chosen by the reader.
    """

    path: Path
    folder: Path
    config: dict
    summary: dict | None = None
    on_nodes: bool = False
    name: str = ""

    @classmethod
    def at(cls, path: str | Path, name: str = "") -> Self:
        """Reads a folder that may hold no run yet.

        Raises:
          UserError: a file in it is damaged.
        """
        path = Path(path)
        config = read_config(path)
        summary = _read(path / SUMMARY, schemas.find_summary_error)
        return cls(path, path, config or {}, summary, (path / NODES).exists(), name)

    @classmethod
    def read(cls, path: str | Path, name: str = "") -> Self:
        """Reads the folder of a run.

        Raises:
          UserError: the folder is not that of a run, or a file in it is damaged.
        """
        folder = on_disk(Path(path))
        run = dataclasses.replace(cls.at(folder, name), path=Path(path))
        if run.config:
            return run
        hint = "give work directories of runs, such as runs/protonorm-digits-seed0."
        if not is_run(folder) and (runs := run_folders(run.path)):
            hint = f"name one of the {len(runs)} runs in it: {first_few(runs)}."
        what = f"holds no {CONFIG}" if folder.exists() else "does not exist"
        raise UserError(f"{path} {what}: {hint}")

    def status(self, rounds: int | None = None) -> Status:
        """Returns the status for planned rounds, by default those of `config`."""
        planned = self.config.get("rounds", 0) if rounds is None else rounds
        return status_of(self.summary, planned, bool(self.config))

    @property
    def finished(self) -> bool:
        """Returns whether the run has ended with results."""
        return self.status().ok

    @property
    def results(self) -> dict:
        """Returns the summary of a finished run.

        Raises:
          UserError: the run is not finished.
        """
        if self.summary is None or not self.finished:
            raise UserError(f"{self.path} is not finished; leave it out or resume it.")
        return self.summary

    @functools.cached_property
    def records(self) -> list[dict]:
        """Returns the records of all evaluations, read once; none without a file.

        Raises:
          UserError: a line is no record.
        """
        records = read(self.folder / METRICS)
        for i, record in enumerate(records):
            if not record.get("rules"):
                raise record_error(self.folder / METRICS, i, "it has no rules")
        return records

    @functools.cached_property
    def provenance(self) -> list[dict]:
        """Returns the entries of `provenance.json`, oldest first; none of older runs.

        Raises:
          UserError: the file is damaged.
        """
        content = _read(self.folder / PROVENANCE, schemas.find_provenance_error)
        return content["history"] if content else []

    @property
    def last(self) -> dict | None:
        """Returns the newest record."""
        return self.records[-1] if self.records else None

    @property
    def round(self) -> int:
        """Returns the round of the newest record; 0 where there is none."""
        return self.last["round"] if self.last else 0

    def evaluations(self) -> list[dict]:
        """Returns the records, at least one.

        Raises:
          UserError: there is none.
        """
        if not self.records:
            exists = (self.folder / METRICS).exists()
            why = "has no evaluation yet" if exists else f"holds no {METRICS}"
            raise UserError(f"{self.path} {why}: leave this run out.")
        return self.records

    def newest(self) -> dict | None:
        """Returns the newest record on disk; earlier ones are not parsed."""
        return read_last(self.folder / METRICS)

    def stamp(self) -> tuple[int, int]:
        """Returns the time of change [ns] and the size of the records; 0, 0 without."""
        try:
            stat = (self.folder / METRICS).stat()
        except OSError:
            return 0, 0
        return stat.st_mtime_ns, stat.st_size


def on_disk(path: Path) -> Path:
    """Returns the folder with the files of a path: itself, or one that is found.

    Raises:
      UserError: the archive that has the files is damaged.
    """
    found = () if os.path.lexists(path) else (find(path) for find in FINDERS)
    return next(filter(None, found), path)


def is_run(path: str | Path) -> bool:
    """Returns whether a folder has a file of a run."""
    return any(os.path.exists(Path(path) / n) for n in (CONFIG, SUMMARY, METRICS))


def run_folders(path: Path) -> list[Path]:
    """Returns the folders of the runs that a path names: its own, or those inside.

    The cells of a sweep may be elsewhere; its table has their folders. The name of a
    run that is found elsewhere (`FINDERS`) may be a pattern.

    Raises:
      UserError: the folder or the table of a sweep cannot be read.
    """
    folder = on_disk(path)
    try:
        if is_run(folder):
            return [path]
        if not folder.is_dir():
            return _matching(path, folder)
        inside = [
            path / p.name for p in sorted(folder.iterdir()) if p.is_dir() and is_run(p)
        ]
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}.") from e
    return [*{p.resolve(): p for p in [*inside, *_listed(path)]}.values()]


def _matching(path: Path, folder: Path) -> list[Path]:
    """Returns the runs elsewhere whose names match the last part of a path."""
    found = sorted(folder.parent.glob(folder.name)) if folder != path else []
    return [path.with_name(p.name) for p in found if is_run(p)]


def _listed(folder: Path) -> list[Path]:
    """Returns the folders that the table of a sweep names.

    A path that does not exist is looked up from the parent folder of `sweeps/`.
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


def has_begun(path: Path) -> bool:
    """Returns whether a folder has the configuration of a run."""
    return (path / CONFIG).is_file()


def read_config(path: Path) -> dict | None:
    """Returns the configuration of the run in a folder, flat; None if there is none.

    Raises:
      UserError: the file is damaged or not a configuration.
    """
    config = _read(path / CONFIG, schemas.find_config_error)
    return None if config is None else upgrade_saved(config)


def _read(file: Path, find_error: Callable[[Mapping], str]) -> dict | None:
    """Reads a JSON file of a run; returns None if there is no file."""
    try:
        content = read_json(file)
        if content is not None and (error := find_error(content)):
            raise Damaged(error)
    except Damaged as e:
        raise UserError(
            f"{file} cannot be read ({e}): leave this run out, move {file.parent} away "
            "or choose another folder with --workdir."
        ) from e
    return content

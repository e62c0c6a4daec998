"""Folder of a run: its configuration, summary, records and status.

All code that reads the folder of a run uses `RunFolder`, so that damaged, missing and
foreign files have one message each.
"""

import dataclasses
import functools
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from jaxproto.config import upgrade_saved
from jaxproto.config.factory_fields import all_fields
from jaxproto.errors import UserError, first_unprintable
from jaxproto.io.json_files import (
    EVERY,
    SHOWN,
    Damaged,
    Number,
    Schema,
    find_error,
    read_json,
)
from jaxproto.storage.records import (
    COUNT,
    NUMBER,
    NUMBERS,
    Coverage,
    coverage,
    read,
    read_last,
    record_error,
)
from jaxproto.storage.status import Status, status_of

CONFIG, SUMMARY, METRICS = "config.json", "summary.json", "metrics.jsonl"
NODES = "nodes.json"  # of a run whose clients are processes of their own
KNOWN = Number(null=False)
DIGEST = {"best": NUMBER, "final": NUMBER, EVERY: NUMBER}
EMPTY = {"pooled": {"final": None}}
BY_CLASS = {"final": NUMBERS}
SUMMARY_SCHEMA: Schema = {
    "status": str,
    "rounds": COUNT,
    "rules": {EVERY: {"pooled": DIGEST, "client_mean": DIGEST}},
    "metrics?": {EVERY: {EVERY: {EVERY: (DIGEST, BY_CLASS)}}},
    "commonest_class?": {"pooled": KNOWN, "client_mean": KNOWN, "examples": COUNT},
    "collapsed?": {EVERY: COUNT},
    "bytes_total?": (NUMBERS, type(None)),
    **dict.fromkeys(("seconds_per_round?", "compile_seconds?"), NUMBER),
    **dict.fromkeys(("scalars_per_round?", "bytes_per_round?"), NUMBERS),
    "peak_memory_bytes?": NUMBERS,
}


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """Contents of a run's folder at the time of reading.

    Attributes:
      path: path of the folder.
      config: the flat configuration, with later fields at their defaults; empty where
        no run has begun.
      summary: summary of the run; None until it has ended.
      on_nodes: whether its clients were nodes with processes of their own.
      name: label among other runs, chosen by the reader.
    """

    path: Path
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
        config, summary = read_config(path), _read(path / SUMMARY, _summary_error)
        return cls(path, config or {}, summary, (path / NODES).exists(), name)

    @classmethod
    def read(cls, path: str | Path, name: str = "") -> Self:
        """Reads the folder of a run.

        Raises:
          UserError: the folder is not that of a run, or a file in it is damaged.
        """
        run = cls.at(path, name)
        if not run.config:
            raise UserError(
                f"{path} holds no {CONFIG}: give work directories of runs, such as "
                "runs/protonorm-digits-seed0."
            )
        return run

    def status(self, rounds: int | None = None) -> Status:
        """Returns the status of the run.

        Args:
          rounds: planned rounds; by default those of its configuration.
        """
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
        records = read(self.path / METRICS)
        for i, record in enumerate(records):
            if not record.get("rules"):
                raise record_error(self.path / METRICS, i, "it has no rules")
        return records

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
            exists = (self.path / METRICS).exists()
            why = "has no evaluation yet" if exists else f"holds no {METRICS}"
            raise UserError(f"{self.path} {why}: leave this run out.")
        return self.records

    def covered(self, due: Iterable[int]) -> Coverage:
        """Returns the coverage of the records on disk, by `records.coverage`."""
        return coverage(self.path / METRICS, due)

    def newest(self) -> dict | None:
        """Returns the newest record on disk; only the end of the file is read."""
        return read_last(self.path / METRICS)

    def stamp(self) -> tuple[int, int]:
        """Returns the time of change [ns] and the size of the records; 0, 0 without."""
        try:
            stat = (self.path / METRICS).stat()
        except OSError:
            return 0, 0
        return stat.st_mtime_ns, stat.st_size


def is_run(path: str | Path) -> bool:
    """Returns whether a folder has a file of a run."""
    return any(os.path.exists(Path(path) / n) for n in (CONFIG, SUMMARY, METRICS))


def has_begun(path: Path) -> bool:
    """Returns whether a folder has the configuration of a run."""
    return (path / CONFIG).is_file()


def read_config(path: Path) -> dict | None:
    """Returns the configuration of the run in a folder, flat; None if there is none.

    Raises:
      UserError: the file is damaged or not a configuration.
    """
    config = _read(path / CONFIG, _config_error)
    return None if config is None else upgrade_saved(config)


def _read(file: Path, find: Callable[[Mapping], str]) -> dict | None:
    """Reads a JSON file of a run; returns None if there is no file."""
    try:
        content = read_json(file)
        if content is not None and (error := find(content)):
            raise Damaged(error)
    except Damaged as e:
        raise UserError(
            f"{file} cannot be read ({e}): leave this run out, move {file.parent} away "
            "or choose another folder with --workdir."
        ) from e
    return content


def _summary_error(summary: Mapping) -> str:
    error = find_error(summary, SUMMARY_SCHEMA)
    for rule in () if error else summary.get("collapsed", ()):
        if summary["rules"].get(rule, EMPTY)["pooled"]["final"] is None:
            error = f"collapsed has rule {rule}, which has no accuracy"
    return error and f"it is no summary of a run: {error}"


def _config_error(config: Mapping) -> str:
    error = find_error(config, _config_schema(config)) or _unprintable(config)
    return error and f"it is no configuration: {error}"


def _config_schema(config: Mapping) -> Schema:
    """Returns the types of all known fields; `method.name` alone is required."""
    method = config.get("method")
    name = method.get("name") if isinstance(method, dict) else ""
    schema: dict[str, Any] = {}
    for path, field in all_fields(str(name)).items():
        kind: Any = type(field.default)
        if kind in (int, float):
            kind = Number(whole=kind is int, null=False)
        section, dot, key = path.partition(".")
        place = schema.setdefault(f"{section}?", {}) if dot else schema
        place[f"{key or section}?"] = kind
    return schema | {"method": schema.pop("method?") | {"name": str}}


def _unprintable(config: Mapping, above: str = "") -> str:
    """Returns an error that names a field whose name or text no field has."""
    for key, value in config.items():
        if "." in key or first_unprintable(key):
            return f"{above}{key[:SHOWN]!r} is no name of a field"
        if isinstance(value, dict):
            if above:
                return f"{above}{key} is {str(value)[:SHOWN]!r}"
            if error := _unprintable(value, f"{key}."):
                return error
        elif bad := first_unprintable(str(value)):
            return f"{above}{key} has the character {bad}"
    return ""

"""Run directories as they are read: configuration, summary, records, status.

All commands read a run by `RunFolder`, so that damaged and missing files have the same
messages everywhere.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Self

from jaxproto.config import default as fields
from jaxproto.config import upgrade_saved
from jaxproto.errors import UserError
from jaxproto.io.json_files import Damaged, read_json
from jaxproto.storage import records as json_lines
from jaxproto.storage.status import Status, status_of

CONFIG, SUMMARY, METRICS = "config.json", "summary.json", "metrics.jsonl"
NODES = "nodes.json"  # of a run whose clients are nodes
NEEDED = {"status": str, "rounds": int, "rules": dict}  # entries of every summary
ENTRIES: dict[str, type] = {  # entry of a summary -> its type
    **NEEDED,
    "metrics": dict,
    "scalars_per_round": dict,
    "bytes_per_round": dict,
}
DIGEST = ("best", "final")  # entries of a rule in every version


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """Contents of a run directory when it was read.

    Attributes:
      path: of the directory.
      config: flat configuration, with defaults for fields of newer versions; empty if
        no run has begun.
      summary: None if the run has not ended.
      on_nodes: whether clients were nodes, each in a process of its own.
      name: label of the run, given by the reader.
    """

    path: Path
    config: dict
    summary: dict | None = None
    on_nodes: bool = False
    name: str = ""

    @classmethod
    def at(cls, path: str | Path, name: str = "") -> Self:
        """Reads a directory that may hold no run yet.

        Raises:
          UserError: a file of the run is damaged.
        """
        path = Path(path)
        config, summary = read_config(path), _read(path / SUMMARY, _wrong_in_summary)
        return cls(path, config or {}, summary, (path / NODES).exists(), name)

    @classmethod
    def read(cls, path: str | Path, name: str = "") -> Self:
        """Reads the directory of a run.

        Raises:
          UserError: the directory holds no run, or a damaged file.
        """
        found = cls.at(path, name)
        if not found.config:
            raise UserError(
                f"{path} holds no {CONFIG}: give work directories of runs, such as "
                "runs/protonorm-digits-seed0."
            )
        return found

    def status(self, rounds: int | None = None) -> Status:
        """Returns the status of the run.

        Args:
          rounds: planned number; by default that of the configuration.
        """
        planned = self.config.get("rounds", 0) if rounds is None else rounds
        return status_of(self.summary, planned, bool(self.config))

    @property
    def finished(self) -> bool:
        """True if the run has trained its last round, or was stopped early."""
        return self.status().ok

    @property
    def results(self) -> dict:
        """Summary of the finished run.

        Raises:
          UserError: the run is not finished.
        """
        if self.summary is None or not self.finished:
            raise UserError(f"{self.path} is not finished; leave it out or run it on.")
        return self.summary

    @functools.cached_property
    def records(self) -> list[dict]:
        """Records of the evaluations, read once; none if there is no file.

        Raises:
          UserError: a line is no record.
        """
        file = self.path / METRICS
        found = json_lines.read(file)
        for i, record in enumerate(found):
            if not _are_rules(rules := record.get("rules")):
                raise json_lines.record_error(
                    file, i, f"its rules are {str(rules)[:40]!r}"
                )
        return found

    @property
    def last(self) -> dict | None:
        """Newest record, if any."""
        return self.records[-1] if self.records else None

    @property
    def round(self) -> int:
        """Round of the newest record; 0 if there is none."""
        return self.last["round"] if self.last else 0

    def evaluations(self) -> list[dict]:
        """Returns the records, at least one.

        Raises:
          UserError: there is no record.
        """
        if not self.records:
            there = (self.path / METRICS).exists()
            why = "has no evaluation yet" if there else f"holds no {METRICS}"
            raise UserError(f"{self.path} {why}: leave this run out.")
        return self.records

    def covered(self, due: Iterable[int]) -> json_lines.Coverage:
        """Returns the round up to which records on disk are complete."""
        return json_lines.coverage(self.path / METRICS, due)

    def newest(self) -> dict | None:
        """Returns the newest record on disk; reads only the end of the file."""
        return json_lines.read_last(self.path / METRICS)

    def stamp(self) -> tuple[int, int]:
        """Returns time of change (nanoseconds) and size (bytes) of the records file.

        Both are 0 if there is no file.
        """
        try:
            found = (self.path / METRICS).stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size


def is_run(path: str | Path) -> bool:
    """Returns whether a folder holds files of a run."""
    return any((Path(path) / name).exists() for name in (CONFIG, SUMMARY, METRICS))


def has_begun(path: Path) -> bool:
    """Returns whether a folder holds the configuration of a run."""
    return (path / CONFIG).is_file()


def read_config(path: Path) -> dict | None:
    """Reads the flat configuration of the run in a folder; None if there is none.

    Raises:
      UserError: the file holds no configuration.
    """
    found = _read(path / CONFIG, _wrong_in_config)
    return None if found is None else upgrade_saved(found)


def _read(file: Path, wrong: Callable[[Mapping], str]) -> dict | None:
    """Reads a JSON file of a run; None if there is no file."""
    try:
        found = read_json(file)
        if found is not None and (why := wrong(found)):
            raise Damaged(why)
    except Damaged as e:
        raise UserError(
            f"{file} cannot be read ({e}): leave this run out, move {file.parent} away "
            "or choose another folder with --workdir."
        ) from e
    return found


def _wrong_in_config(found: Mapping) -> str:
    """Returns the first invalid field of a configuration, or ""."""
    wrong = _misshapen(found, {**fields().to_dict(), "method": {"name": ""}})
    if not wrong and "name" not in found.get("method", {}):
        wrong = "method.name is absent"
    return wrong and f"it is no configuration: {wrong}"


def _misshapen(given: Mapping, example: Mapping) -> str:
    """Returns the first field whose type is not that of the example, or ""."""
    for key, value in given.items():
        like = example.get(key)
        if isinstance(like, Mapping) and isinstance(value, Mapping):
            if inside := _misshapen(value, like):
                return f"{key}.{inside}"
        elif isinstance(value, Mapping) or _kind(value) != _kind(
            example.get(key, value)
        ):
            return f"{key} is {str(value)[:40]!r}"
    return ""


def _kind(value) -> type:
    return float if isinstance(value, int | float) else type(value)


def _wrong_in_summary(found: Mapping) -> str:
    """Returns the first invalid entry of a summary, or ""."""
    wrong = _wrong_entry(found)
    return wrong and f"it is no summary of a run: {wrong}"


def _wrong_entry(found: Mapping) -> str:
    for name in sorted({*NEEDED, *(ENTRIES.keys() & found.keys())}):
        if name not in found:
            return f"it lacks {name}"
        if not isinstance(found[name], ENTRIES[name]) or isinstance(found[name], bool):
            return f"{name} is {str(found[name])[:40]!r}"
    for rule, kinds in found["rules"].items():
        each = kinds if isinstance(kinds, dict) else {"all": kinds}
        for average, digest in each.items():
            if not _are_numbers(digest) or not {*DIGEST} <= digest.keys():
                return f"{average} of rule {rule} is {str(digest)[:40]!r}"
    return ""


def _are_rules(found) -> bool:
    """Returns whether a value can be the accuracies of a record."""
    return isinstance(found, dict) and all(map(_are_numbers, found.values()))


def _are_numbers(found) -> bool:
    return isinstance(found, dict) and all(
        isinstance(value, int | float | None) for value in found.values()
    )

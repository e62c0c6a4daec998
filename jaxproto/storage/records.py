"""Records of evaluations as JSON lines, and their summary."""

import importlib.metadata
import io
import itertools
import json
import math
import os
import platform
import resource
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.io.json_files import Damaged, json_type

LAST = 10  # evaluations that "mean_last" averages
PACKAGES = ("jaxproto", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def write_columns(path: Path, columns: Mapping[str, np.ndarray]):
    """Writes arrays of equal length as an npz file, atomically.

    Raises:
      Unwritable: the disk is full or not writable.
    """
    content, arrays = io.BytesIO(), dict[str, Any](columns)
    np.savez_compressed(content, **arrays)
    with atomic.write_errors(path.parent, 0):
        path.parent.mkdir(exist_ok=True)
    atomic.write(path, content.getvalue())


def append(path: str | Path, record: Mapping):
    """Adds one line to a JSON-lines file and waits until it is on disk.

    Raises:
      Unwritable: the disk is full or not writable.
    """
    path, line = Path(path), (_dumps(record) + "\n").encode()
    with atomic.write_errors(path, len(line)):
        first = not path.exists()
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if first:
            atomic.fsync_dir(path.parent)


def read(path: str | Path) -> list[dict]:
    """Reads the records of a JSON-lines file; none if there is no file.

    A truncated last line, as of a killed process, is left out.

    Raises:
      UserError: another line is no record, or the file cannot be read.
    """
    return [record for _, record in _lines(Path(path))]


def read_last(path: str | Path) -> dict | None:
    """Returns the last complete record of a JSON-lines file; reads only its end.

    None if there is no file or no record; `read` has the error.
    """
    size = 1 << 16
    try:
        with Path(path).open("rb") as file:
            end = file.seek(0, os.SEEK_END)
            while True:
                start = file.seek(max(0, end - size))
                lines = file.read(end - start).splitlines(keepends=True)
                whole = [line for line in lines if line.endswith(b"\n")]
                if not start or len(whole) > 1:
                    return _record(whole[-1]) if whole else None
                size *= 2
    except (OSError, Damaged):
        return None


def truncate_after(path: str | Path, round: int):
    """Drops the records of later rounds, and a truncated last line, atomically.

    The lines that stay keep their bytes.
    """
    path = Path(path)
    if path.exists():
        kept = [line for line, record in _lines(path) if record["round"] <= round]
        atomic.write(path, b"".join(s + b"\n" for s in kept))


class Coverage(NamedTuple):
    """Round up to which every evaluation has exactly one record."""

    until: float  # round; inf if no record is missing
    why: str  # the first record that is missing or out of order


def coverage(path: str | Path, due: Iterable[int]) -> Coverage:
    """Finds the round up to which records are complete.

    Args:
      path: JSON-lines file; it may be absent.
      due: rounds that must have a record. Others may: an extended run has one where it
        first ended.
    """
    name, rounds = Path(path).name, [record["round"] for record in read(path)]
    lost = {r: f"which lacks round {r}" for r in {*due} - {*rounds}}
    for i, (before, r) in enumerate(itertools.pairwise([0, *rounds])):
        if r <= before:
            lost[r] = f"which has round {r} in line {i + 1}, after round {before}"
    if not lost:
        return Coverage(math.inf, "")
    return Coverage(min(lost) - 1, f"{name}, {lost[min(lost)]}")


def write_json(path: str | Path, obj: Any):
    """Writes a JSON file atomically."""
    atomic.write(path, (_dumps(obj, indent=2) + "\n").encode())


def rule_summary(records: Sequence[Mapping]) -> dict[str, dict[str, dict]]:
    """Summarises the accuracies of each rule over the evaluations.

    Args:
      records: of `metrics.jsonl`, `{"round": 3, "rules": {"head": {"pooled": 0.8,
        "client_mean": 0.7, ...}, ...}, ...}`; accuracies may be None.

    Returns:
      {rule: {"pooled": {"best", "best_round", "final", "mean_last", "last_n"},
      "client_mean": {...}}}, in the order of the last record. The mean is over the last
      `last_n` evaluations, at most 10.
    """
    rules = records[-1]["rules"] if records else {}
    kinds = ("pooled", "client_mean")
    return {rule: {k: _of_rule(records, rule, k) for k in kinds} for rule in rules}


def _of_rule(records, rule, kind):
    return summarize_series(
        [(r["round"], r["rules"].get(rule, {}).get(kind)) for r in records]
    )


def summarize_series(
    rows: Sequence[tuple[int, float | None]], least: bool = False
) -> dict:
    """Returns best, best round, final and mean of the last of some values.

    Args:
      rows: round and value of each evaluation; a value may be None.
      least: whether the smallest value is the best.
    """
    best_round, best = (min if least else max)(
        ((r, a) for r, a in rows if a is not None),
        key=lambda row: row[1],  # the first of equals
        default=(None, None),
    )
    last = [a for _, a in rows[-LAST:] if a is not None]
    return {
        "best": best,
        "best_round": best_round,
        "final": rows[-1][1],
        "mean_last": sum(last) / len(last) if last else None,
        "last_n": len(last),
    }


def mean_last(digest: Mapping) -> tuple[float | None, int | None]:
    """Returns the mean over the last evaluations of a rule, and their number.

    Args:
      digest: an entry of `rule_summary`, or of `summary.json`; older versions do not
        store the number (at most 10), which is None then.
    """
    if "mean_last" in digest:
        return digest["mean_last"], digest.get("last_n")
    return digest.get("mean_last_10"), None


def peak_memory_bytes() -> dict[str, int | None]:
    """Returns the peak memory of the process, and of the fullest device, in bytes.

    "device" is None if the platform does not report it (CPU).
    """
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [s["peak_bytes_in_use"] for s in stats if "peak_bytes_in_use" in s]
    return {
        "host": host * (1 if sys.platform == "darwin" else 1024),  # macOS: bytes
        "device": max(peaks, default=None),
    }


def versions() -> dict[str, str | None]:
    """Returns the versions of Python and of the packages that results depend on."""
    by_name: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            by_name[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            by_name[name] = None  # run from a source tree
    return by_name


def _dumps(obj, indent=None):
    return json.dumps(to_json_values(obj), indent=indent, allow_nan=False)


def to_json_values(obj: Any) -> Any:
    """Converts to JSON types: arrays to lists, numbers that are not finite to None."""
    if isinstance(obj, Mapping):
        return {str(k): to_json_values(v) for k, v in obj.items()}
    if isinstance(obj, list | tuple):
        return [to_json_values(v) for v in obj]
    if isinstance(obj, np.ndarray | np.generic | jax.Array):
        return to_json_values(np.asarray(obj).tolist())
    if isinstance(obj, float) and not math.isfinite(obj):
        return None
    return str(obj) if isinstance(obj, Path) else obj


def _lines(path):
    """Returns every line with its record, without a truncated last line."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as e:
        raise UserError(
            f"{path} cannot be read ({e.strerror}): a run has its records there. Put "
            "it back from a copy, or choose another folder with --workdir."
        ) from e
    pairs = []
    for i, line in enumerate(lines):
        try:
            pairs.append((line, _record(line)))
        except _Torn as e:
            if i + 1 == len(lines):
                break
            raise record_error(path, i, e) from e
        except Damaged as e:
            raise record_error(path, i, e) from e
    return pairs


class _Torn(Damaged):
    """Error of a line that is not JSON, perhaps because writing was interrupted."""


def record_error(path: Path, i: int, why: object) -> UserError:
    """Returns the error for line `i`, from 0, that is no record."""
    return UserError(
        f"line {i + 1} of {path} is no record of a run: {why}. Mend or remove that "
        "line, or put the file back from a copy."
    )


def _record(line: bytes) -> dict:
    """Parses a record and checks that it has a round."""
    try:
        record = json.loads(line)
    except RecursionError as e:
        raise Damaged("it is nested too deep") from e
    except ValueError as e:
        raise _Torn(f"it is not JSON ({e})") from e
    if not isinstance(record, dict):
        raise Damaged(f"it holds {json_type(record)}, no object")
    at = record.get("round", "absent")
    if not isinstance(at, int) or isinstance(at, bool) or at < 0:
        raise Damaged(f"its round is {str(at)[:40]!r}, no whole number")
    return record

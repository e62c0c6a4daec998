"""Records of a run on disk: JSON lines, JSON files and their summary."""

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
from jaxproto.io.json_files import Damaged, NotJson, parse_object
from jaxproto.storage import schemas

LAST = 10  # evaluations in the recent mean
AVERAGES = ("pooled", "client_mean")  # of a rule's accuracy
PACKAGES = ("jaxproto", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def write_columns(path: Path, columns: Mapping[str, np.ndarray]):
    """Writes arrays of equal length as an npz file, atomically.

    Raises:
      Unwritable: writing failed.
    """
    content, arrays = io.BytesIO(), dict[str, Any](columns)
    np.savez_compressed(content, **arrays)
    with atomic.write_errors(path.parent, 0):
        path.parent.mkdir(exist_ok=True)
    atomic.write(path, content.getvalue())


def append(path: Path, record: Mapping):
    """Adds one line to a JSON-lines file and waits until it is on disk.

    Raises:
      Unwritable: writing failed, for example on a full disk.
    """
    line = (_dumps(record) + "\n").encode()
    with atomic.write_errors(path, len(line)):
        is_new = not path.exists()
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            atomic.fsync_dir(path.parent)


def read(path: str | Path) -> list[dict]:
    """Reads the records of a JSON-lines file; none if there is no file.

    A last line that a killed process left incomplete is ignored.

    Raises:
      UserError: another line is no record, or the file cannot be read.
    """
    return [record for _, record in _parse_lines(Path(path))]


def read_last(path: str | Path) -> dict | None:
    """Reads the last complete line of a JSON-lines file; None if it is no record."""
    try:
        *complete, _ = atomic.read(path).split(b"\n")
        return _parse_record(complete[-1]) if complete else None
    except (OSError, Damaged):
        return None


def truncate_after(path: Path, round: int):
    """Drops the records of later rounds, and an incomplete last line, atomically.

    The bytes of the other lines do not change.
    """
    if path.exists():
        kept = [line for line, row in _parse_lines(path) if row["round"] <= round]
        atomic.write(path, b"".join(line + b"\n" for line in kept))


class Coverage(NamedTuple):
    """The last round up to which every evaluation has exactly one record."""

    until: float  # inf if no record is missing
    why: str  # which record is missing after it, or out of order


COMPLETE = Coverage(math.inf, "")


def coverage(path: str | Path, due: Iterable[int]) -> Coverage:
    """Checks that the evaluations of a run have their records.

    Args:
      path: a JSON-lines file; a missing file has no records.
      due: rounds that must have a record, ascending. Other rounds may have one: an
        extended run has a record where it first ended.
    """
    recorded = [record["round"] for record in read(path)]
    distinct = {*recorded}
    missing = next((r for r in due if r not in distinct), None)
    gaps = {} if missing is None else {missing: f"which lacks round {missing}"}
    for i, (previous, r) in enumerate(itertools.pairwise([0, *recorded])):
        if r <= previous:
            gaps[r] = f"which has round {r} in line {i + 1}, after round {previous}"
    if not gaps:
        return COMPLETE
    return Coverage(min(gaps) - 1, f"{Path(path).name}, {gaps[min(gaps)]}")


def write_json(path: str | Path, obj: Any):
    """Writes a JSON file atomically: a reader sees the old or the new file."""
    atomic.write(path, (_dumps(obj, indent=2) + "\n").encode())


def rule_summary(records: Sequence[Mapping]) -> dict[str, dict[str, dict]]:
    """Returns best, best round, final and recent mean test accuracy of each rule.

    Args:
      records: records of `metrics.jsonl`, `{"round": 3, "rules": {"head": {"pooled":
        0.8, "client_mean": 0.7, ...}, ...}, ...}`; accuracies may be None.

    Returns:
      {rule: {"pooled": {"best", "best_round", "final", "mean_last", "last_n"},
      "client_mean": {...}}}, in the order of the last record. `mean_last` is the mean
      of the last `last_n` evaluations, at most 10. With validation examples, "best" is
      the test accuracy in the round of the best validation accuracy, which is
      "best_validation". If every record has the correct predictions of every client,
      "client_best" is the accuracy with the best evaluation of each client (ProtoNorm
      5.1).
    """
    rules = records[-1]["rules"] if records else {}

    def summarize(rule, average):
        rows = [(r["round"], r["rules"].get(rule, {}).get(average)) for r in records]
        chosen_by = validation_accuracies(records, rule, average)
        best = _client_best(records, rule, average)
        return summarize_series(rows, validation=chosen_by) | best

    return {rule: {a: summarize(rule, a) for a in AVERAGES} for rule in rules}


def validation_accuracies(
    records: Sequence[Mapping], rule: str, average: str = "pooled"
) -> list[float | None] | None:
    """Returns the validation accuracy of each record; None if no record has one."""
    if not any("validation" in r for r in records):
        return None
    return [r.get("validation", {}).get(rule, {}).get(average) for r in records]


def chosen_on(digests: Iterable[Mapping]) -> str:
    """Returns "validation" if all best rounds were chosen on such data, else "test".

    The digests are entries of `rule_summary` for one average.
    """
    validated = ["best_validation" in digest for digest in digests]
    return "validation" if validated and all(validated) else "test"


def _client_best(records: Sequence[Mapping], rule: str, average: str) -> dict:
    """Returns `client_best`; {} unless all records list the same clients."""
    tables = [r.get("by_client", {}) for r in records]
    correct, ids = ([t.get(k) for t in tables] for k in (f"correct_{rule}", "id"))
    if None in correct or ids.count(ids[0]) < len(ids):
        return {}
    size_K = np.array(tables[0]["test_examples"])
    best_K, size_K = np.max(correct, axis=0)[size_K > 0], size_K[size_K > 0]
    if not size_K.size:
        return {}
    pooled = best_K.sum() / size_K.sum()
    value = pooled if average == "pooled" else (best_K / size_K).mean()
    return {"client_best": float(value)}


def summarize_series(
    rows: Sequence[tuple[int, float | None]],
    least: bool = False,
    validation: Sequence[float | None] | None = None,
) -> dict:
    """Returns best, best round, final and recent mean of a series of values.

    Args:
      rows: round and value, which may be None.
      least: whether the smallest value is the best.
      validation: validation accuracy of each round, which chooses the best round
        instead of the value.
    """
    chosen_by = [a for _, a in rows] if validation is None else validation
    pairs = zip(rows, chosen_by, strict=True)
    complete: list[Any] = [(*row, by) for row, by in pairs if None not in (row[1], by)]
    choose = min if least and validation is None else max  # the first of equal values
    best_round, best, by = choose(complete, key=lambda row: row[2], default=(None,) * 3)
    last = [a for _, a in rows[-LAST:] if a is not None]
    return {
        "best": best,
        "best_round": best_round,
        **({} if validation is None else {"best_validation": by}),
        "final": rows[-1][1],
        "mean_last": sum(last) / len(last) if last else None,
        "last_n": len(last),
    }


def mean_last(digest: Mapping) -> tuple[float | None, int | None]:
    """Returns the mean of the last evaluations, and their number: None in old runs."""
    if "mean_last" in digest:
        return digest["mean_last"], digest.get("last_n")
    return digest.get("mean_last_10"), None


def peak_memory_bytes() -> dict[str, int | None]:
    """Returns the peak memory of the process and of the fullest device.

    "device" is None where the platform does not report it (the CPU).
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
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = None  # run from a source tree
    return versions


def _dumps(obj, indent=None):
    return json.dumps(to_json_values(obj), indent=indent, allow_nan=False)


def to_json_values(obj: Any) -> Any:
    """Returns `obj` as JSON values: arrays as lists, non-finite numbers as None."""
    if isinstance(obj, Mapping):
        return {str(k): to_json_values(v) for k, v in obj.items()}
    if isinstance(obj, list | tuple):
        return [to_json_values(v) for v in obj]
    if isinstance(obj, np.ndarray | np.generic | jax.Array):
        return to_json_values(np.asarray(obj).tolist())
    if isinstance(obj, float) and not math.isfinite(obj):
        return None
    return str(obj) if isinstance(obj, Path) else obj


def _parse_lines(path):
    """Returns every line with its record, without a truncated last line."""
    try:
        lines = atomic.read(path).splitlines()
    except FileNotFoundError:
        return []
    except OSError as e:
        raise UserError(
            f"{path} cannot be read ({e.strerror}): a run has its records there. Put "
            "it back from a copy, or choose another folder with --workdir."
        ) from e
    parsed = []
    for i, line in enumerate(lines):
        try:
            parsed.append((line, _parse_record(line)))
        except Damaged as e:
            if isinstance(e, NotJson) and i + 1 == len(lines):
                break
            raise record_error(path, i, e) from e
    return parsed


def record_error(path: Path, i: int, why: object) -> UserError:
    """Returns the error for line `i`, from 0, which is not a record."""
    return UserError(
        f"line {i + 1} of {path} is no record of a run: {why}. Mend or remove that "
        "line, or put the file back from a copy."
    )


def _parse_record(line: bytes) -> dict:
    """Parses a line into a record; raises Damaged if it is none."""
    record = parse_object(line)
    if error := schemas.find_record_error(record):
        raise Damaged(error)
    return record

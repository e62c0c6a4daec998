"""What a run measures, on disk: JSON lines, JSON files, their summary."""

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

LAST = 10  # evaluations behind "mean of the last"
PACKAGES = ("jaxproto", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def write_columns(path: Path, columns: Mapping[str, np.ndarray]):
    """Writes arrays of equal length as an npz file, in one piece.

    Raises:
      Unwritable: the system refuses.
    """
    content, arrays = io.BytesIO(), dict[str, Any](columns)
    np.savez_compressed(content, **arrays)
    with atomic.write_errors(path.parent, 0):
        path.parent.mkdir(exist_ok=True)
    atomic.write(path, content.getvalue())


def append(path: str | Path, record: Mapping):
    """Adds one line to a JSON-lines file and waits until it is on disk.

    Raises:
      Unwritable: the system refuses, such as on a full disk.
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
    """The records of a JSON-lines file; none if there is no file.

    A last line that a kill cut short is left out.

    Raises:
      UserError: another line is no record, or the file cannot be read.
    """
    return [record for _, record in _lines(Path(path))]


def read_last(path: str | Path) -> dict | None:
    """The last record of a JSON-lines file that is whole; only its end is read.

    None if there is no file, or what is there is no record; `read` says why.
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
    """Drops the records of later rounds, and a torn last line; in one step.

    The lines that stay are not rewritten, so they stay the same to the byte.
    """
    path = Path(path)
    if path.exists():
        kept = [line for line, record in _lines(path) if record["round"] <= round]
        atomic.write(path, b"".join(s + b"\n" for s in kept))


class Coverage(NamedTuple):
    """How far records go: every evaluation up to a round has its line, and only one."""

    until: float  # inf where none is missing
    why: str  # what is missing after it, or twice


def coverage(path: str | Path, due: Iterable[int]) -> Coverage:
    """Looks whether the evaluations that were made have their records.

    Args:
      path: a JSON-lines file; without it no evaluation is there.
      due: the rounds that must have one. Others may: a run that was made longer has one
        where it first ended.
    """
    name, found = Path(path).name, [record["round"] for record in read(path)]
    lost = {r: f"which lacks round {r}" for r in {*due} - {*found}}
    for i, (before, r) in enumerate(itertools.pairwise([0, *found])):
        if r <= before:
            lost[r] = f"which has round {r} in line {i + 1}, after round {before}"
    if not lost:
        return Coverage(math.inf, "")
    return Coverage(min(lost) - 1, f"{name}, {lost[min(lost)]}")


def write_json(path: str | Path, obj: Any):
    """Writes a JSON file; whoever reads it meanwhile sees the old or the new one."""
    atomic.write(path, (_dumps(obj, indent=2) + "\n").encode())


def rule_summary(records: Sequence[Mapping]) -> dict[str, dict[str, dict]]:
    """Best, best round, final and mean of the last evaluations of each rule.

    Args:
      records: of `metrics.jsonl`, `{"round": 3, "rules": {"head": {"pooled": 0.8,
        "client_mean": 0.7, ...}, ...}, ...}`; accuracies may be None.

    Returns:
      {rule: {"pooled": {"best", "best_round", "final", "mean_last", "last_n"},
      "client_mean": the same}}, in the order of the last record. The mean is of the
      last `last_n` evaluations, 10 where there are as many.
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
    """Best, best round, final and mean of the last of the values of evaluations.

    Args:
      rows: round and value, which may be None.
      least: the smallest is the best.
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
    """Mean of the last evaluations of a rule, and of how many.

    Args:
      digest: an entry of `rule_summary`, or of an older version's `summary.json`,
        which does not say how many; then that is None, 10 at most.
    """
    if "mean_last" in digest:
        return digest["mean_last"], digest.get("last_n")
    return digest.get("mean_last_10"), None


def peak_memory_bytes() -> dict[str, int | None]:
    """The most memory used so far: by the process, and by the fullest device.

    "device" is None where the platform does not say (the CPU).
    """
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [s["peak_bytes_in_use"] for s in stats if "peak_bytes_in_use" in s]
    return {
        "host": host * (1 if sys.platform == "darwin" else 1024),  # macOS: bytes
        "device": max(peaks, default=None),
    }


def versions() -> dict[str, str | None]:
    """Versions of Python and of the packages that results depend on."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None  # run from a source tree
    return found


def _dumps(obj, indent=None):
    return json.dumps(to_json_values(obj), indent=indent, allow_nan=False)


def to_json_values(obj: Any) -> Any:
    """`obj` as JSON knows it; arrays become lists, numbers that are not finite None."""
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
    """Every line with its record; without a last one that a kill cut short."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as e:
        raise UserError(
            f"{path} cannot be read ({e.strerror}): a run has its records there. Put "
            "it back from a copy, or choose another folder with --workdir."
        ) from e
    found = []
    for i, line in enumerate(lines):
        try:
            found.append((line, _record(line)))
        except _Torn as e:
            if i + 1 == len(lines):
                break
            raise record_error(path, i, e) from e
        except Damaged as e:
            raise record_error(path, i, e) from e
    return found


class _Torn(Damaged):
    """A line is not JSON: whoever wrote it may not have come to its end."""


def record_error(path: Path, i: int, why: object) -> UserError:
    """Returns the error of line `i`, from 0, that is no record."""
    return UserError(
        f"line {i + 1} of {path} is no record of a run: {why}. Mend or remove that "
        "line, or put the file back from a copy."
    )


def _record(line: bytes) -> dict:
    """The record in a line, with its round as a whole number."""
    try:
        found = json.loads(line)
    except RecursionError as e:
        raise Damaged("it is nested too deep") from e
    except ValueError as e:
        raise _Torn(f"it is not JSON ({e})") from e
    if not isinstance(found, dict):
        raise Damaged(f"it holds {json_type(found)}, no object")
    at = found.get("round", "absent")
    if not isinstance(at, int) or isinstance(at, bool) or at < 0:
        raise Damaged(f"its round is {str(at)[:40]!r}, no whole number")
    return found

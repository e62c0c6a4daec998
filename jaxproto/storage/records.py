"""What a run measures, on disk: JSON lines, JSON files, their summary."""

import importlib.metadata
import json
import math
import os
import platform
import resource
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxproto.data import files
from jaxproto.errors import UserError

LAST = 10  # evaluations behind "mean of the last"
PACKAGES = ("jaxproto", "jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


def append(path: str | Path, record: Mapping):
    """Adds one line to a JSON-lines file and waits until it is on disk."""
    line = _dumps(record) + "\n"
    with Path(path).open("ab") as file:
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def read(path: str | Path) -> list[dict]:
    """The records of a JSON-lines file; none if there is no file.

    A last line that a kill cut short is left out.

    Raises:
      UserError: another line is not JSON.
    """
    return [json.loads(line) for line in _whole_lines(Path(path))]


def keep_until(path: str | Path, round: int):
    """Drops the records of later rounds, and a torn last line; in one step.

    The lines that stay are not rewritten, so they stay the same to the byte.
    """
    path = Path(path)
    if path.exists():
        kept = [s for s in _whole_lines(path) if json.loads(s)["round"] <= round]
        files.write(path, b"".join(s + b"\n" for s in kept))


def write_json(path: str | Path, obj: Any):
    """Writes a JSON file; whoever reads it meanwhile sees the old or the new one."""
    files.write(path, (_dumps(obj, indent=2) + "\n").encode())


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
    return {
        rule: {kind: _digest(records, rule, kind) for kind in ("pooled", "client_mean")}
        for rule in rules
    }


def _digest(records, rule, kind):
    rows = [(r["round"], r["rules"].get(rule, {}).get(kind)) for r in records]
    best_round, best = max(
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
        return digest["mean_last"], digest["last_n"]
    return digest["mean_last_10"], None


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
    return json.dumps(plain(obj), indent=indent, allow_nan=False)


def plain(obj: Any) -> Any:
    """`obj` as JSON knows it; arrays become lists, numbers that are not finite None."""
    if isinstance(obj, Mapping):
        return {str(k): plain(v) for k, v in obj.items()}
    if isinstance(obj, list | tuple):
        return [plain(v) for v in obj]
    if isinstance(obj, np.ndarray | np.generic | jax.Array):
        return plain(np.asarray(obj).tolist())
    if isinstance(obj, float) and not math.isfinite(obj):
        return None
    return str(obj) if isinstance(obj, Path) else obj


def _whole_lines(path):
    if not path.exists():
        return []
    lines = path.read_bytes().splitlines()
    for i, line in enumerate(lines):
        try:
            json.loads(line)
        except ValueError as e:
            if i + 1 == len(lines):
                return lines[:i]
            raise UserError(
                f"line {i + 1} of {path} is not JSON ({e}); mend or remove that line."
            ) from e
    return lines

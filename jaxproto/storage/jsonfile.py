"""JSON files of a run that are read back: each is what it must be, or says why not."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

SUMMARY: dict[str, type] = {  # entry of summary.json -> what it is
    "status": str,
    "rules": dict,
    "metrics": dict,
    "rounds": int,
    "scalars_per_round": dict,
    "bytes_per_round": dict,
}
DIGEST = ("best", "final")  # what every version says of a rule


class Damaged(ValueError):
    """A file is no JSON object; the message says why, in a few words."""


def read_json(path: str | Path) -> dict | None:
    """The object in a JSON file; None if there is no such file.

    Raises:
      Damaged: it is something else, or cannot be read.
    """
    path = Path(path)
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as e:
        raise Damaged(e.strerror or str(e)) from e
    except RecursionError as e:
        raise Damaged("it is nested too deep") from e
    except ValueError as e:
        raise Damaged(str(e)) from e
    if not isinstance(found, dict):
        raise Damaged(f"it holds {kind(found)}, no object")
    return found


def read_summary(
    path: str | Path, needed: Sequence[str] = ("status", "rules")
) -> dict | None:
    """The summary of an ended run; None if there is no such file.

    Args:
      path: of the file.
      needed: entries that it must have; older versions have not all.

    Raises:
      Damaged: it is something else.
    """
    found = read_json(path)
    if found is not None and (wrong := _wrong(found, needed)):
        raise Damaged(f"it is no summary of a run: {wrong}")
    return found


def _wrong(found, needed) -> str:
    """The first entry of a summary that is not what it must be."""
    for name in sorted({*needed, *(SUMMARY.keys() & found.keys())}):
        if name not in found:
            return f"it lacks {name}"
        if not isinstance(found[name], SUMMARY[name]) or isinstance(found[name], bool):
            return f"{name} is {str(found[name])[:40]!r}"
    for rule, kinds in found["rules"].items():
        for average, digest in kinds.items() if isinstance(kinds, dict) else [("", 0)]:
            if not isinstance(digest, dict) or not _is_digest(digest):
                return f"{average or 'all'} of rule {rule} is {str(digest)[:40]!r}"
    return ""


def _is_digest(found) -> bool:
    numbers = all(isinstance(value, int | float | None) for value in found.values())
    return numbers and {*DIGEST} <= found.keys()


def kind(found: Any) -> str:
    """What JSON calls it, with its article."""
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(found), "a number")

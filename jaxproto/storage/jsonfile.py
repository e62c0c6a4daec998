"""JSON files of a run that are read back: each is what it must be, or says why not."""

import json
from pathlib import Path
from typing import Any

SUMMARY: dict[str, type] = {  # entry of summary.json -> what it is
    "status": str,
    "rounds": int,
    "rules": dict,
    "scalars_per_round": dict,
    "bytes_per_round": dict,
}


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


def read_summary(path: str | Path) -> dict | None:
    """The summary of an ended run; None if there is no such file.

    Raises:
      Damaged: it is something else.
    """
    found = read_json(path)
    if found is not None and (wrong := _missing(found)):
        raise Damaged(f"it is no summary of a run: {wrong}")
    return found


def _missing(found) -> str:
    """The first entry of a summary that is not what it must be."""
    for name, want in SUMMARY.items():
        if not isinstance(found.get(name), want) or isinstance(found[name], bool):
            return f"{name} is {str(found.get(name, 'absent'))[:40]!r}"
    for rule, kinds in found["rules"].items():
        for average in ("pooled", "client_mean"):
            digest = kinds.get(average) if isinstance(kinds, dict) else None
            if not isinstance(digest, dict) or not _is_digest(digest):
                return f"{rule} of rules has no {average}"
    return ""


def _is_digest(found) -> bool:
    names = {"best", "best_round", "final"}
    names |= {"mean_last", "last_n"} if "mean_last" in found else {"mean_last_10"}
    return names <= found.keys() and all(
        isinstance(found[name], int | float | None) for name in names
    )


def kind(found: Any) -> str:
    """What JSON calls it, with its article."""
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(found), "a number")

"""JSON files that are read back: each holds an object, or says why not."""

import json
from pathlib import Path
from typing import Any


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
        raise Damaged(f"it holds {json_type(found)}, no object")
    return found


def json_type(found: Any) -> str:
    """What JSON calls it, with its article."""
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(found), "a number")

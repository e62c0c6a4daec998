"""JSON files of objects, with one error for all that can be wrong."""

import json
from pathlib import Path
from typing import Any


class Damaged(ValueError):
    """Error of a file that holds no JSON object, with the reason."""


def read_json(path: str | Path) -> dict | None:
    """Reads the object in a JSON file; None if there is no such file.

    Raises:
      Damaged: the file holds no object, or cannot be read.
    """
    path = Path(path)
    try:
        value = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as e:
        raise Damaged(e.strerror or str(e)) from e
    except RecursionError as e:
        raise Damaged("it is nested too deep") from e
    except ValueError as e:
        raise Damaged(str(e)) from e
    if not isinstance(value, dict):
        raise Damaged(f"it holds {json_type(value)}, no object")
    return value


def json_type(found: Any) -> str:
    """Returns the name of a JSON value's type, with its article."""
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(found), "a number")

"""Strict JSON: one parser, one error and one language of schemas for foreign files."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from jaxproto.errors import first_unprintable
from jaxproto.io import atomic

LARGEST = 2**28  # bytes of a file
INT64 = 2**63
SHOWN = 40  # characters of a wrong value in a message
EVERY = "*"  # in a schema: all entries


class Damaged(ValueError):
    """Error of a file that holds no JSON object, with the reason."""


class NotJson(Damaged):
    """Error of a text that is not JSON: its writer may have been killed."""


def read_json(path: str | Path) -> dict | None:
    """Reads the object in a JSON file; None if there is no such file.

    Raises:
      Damaged: the file holds no object, or cannot be read.
    """
    try:
        return parse_object(atomic.read(path, LARGEST))
    except FileNotFoundError:
        return None
    except OSError as e:
        raise Damaged(e.strerror or str(e)) from e


def parse_object(content: bytes) -> dict:
    """Parses a JSON object whose numbers are finite float64 and int64.

    Raises:
      Damaged: the content is not such an object.
    """
    try:
        value = json.loads(
            content, parse_float=_float, parse_int=_int, parse_constant=_float
        )
    except RecursionError as e:
        raise Damaged("it is nested too deep") from e
    except Damaged:
        raise
    except ValueError as e:
        raise NotJson(f"it is not JSON: {e}") from e
    if not isinstance(value, dict):
        raise Damaged(f"it holds {json_type(value)}, no object")
    return value


def _float(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise Damaged(f"it has the number {text[:SHOWN]}, which is not finite")
    return number


def _int(text: str) -> int:
    if len(text) > 20 or not -INT64 <= (number := int(text)) < INT64:
        raise Damaged(f"it has the number {text[:SHOWN]}, beyond 64 bits")
    return number


def json_type(value: Any) -> str:
    """Returns the name of a JSON value's type, with its article."""
    names = {list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


class Number(NamedTuple):
    """Kind of numbers in a schema."""

    least: float = -1e100
    whole: bool = False  # without a fraction
    null: bool = True  # null is allowed and means unknown
    most: float = 1e100  # so that values computed from it are finite, too

    def fits(self, value: Any) -> bool:
        """Returns whether a value is of this kind."""
        if value is None or isinstance(value, bool):
            return self.null and value is None
        kinds = int if self.whole else int | float
        return isinstance(value, kinds) and self.least <= value <= self.most


Schema = type | Number | tuple | list | Mapping


def find_error(value: Any, schema: Schema, name: str = "it") -> str:
    """Returns a clause on the first entry that does not fit the schema, or "".

    Args:
      schema: a type; a `Number`; a tuple of alternative schemas; a list with the one
        schema of all elements; or a mapping from names of entries to their schemas. An
        entry whose name ends in "?" may be absent, and `EVERY` stands for all entries.
      name: name of the value in the message.
    """
    if isinstance(schema, Mapping):
        return _find_in_object(value, schema, name)
    if isinstance(schema, Number):
        fits = schema.fits(value)
    elif isinstance(schema, list):
        fits = type(value) is list and not any(find_error(v, *schema) for v in value)
    elif isinstance(schema, tuple):
        fits = any(not find_error(value, alternative) for alternative in schema)
    else:
        fits = type(value) is schema
    return "" if fits else _wrong(name, value)


def _find_in_object(value: Any, schema: Mapping, name: str) -> str:
    if not isinstance(value, dict):
        return _wrong(name, value)
    for key, kind in schema.items():
        entry = key.removesuffix("?")
        required = key != EVERY and entry == key
        if required and entry not in value:
            return f"it lacks {entry if name == 'it' else f'{name}.{entry}'}"
        for k in value if key == EVERY else {entry} & value.keys():
            path = k if name == "it" else f"{name}.{k}"
            if key == EVERY and first_unprintable(k):
                return f"{path[:SHOWN]!r} is no name"
            if error := find_error(value[k], kind, path):
                return error
    return ""


def _wrong(name: str, value: Any) -> str:
    return f"{name} is {str(value)[:SHOWN]!r}"

"""Configuration whose fields name themselves when they get a value of another type."""

import os
from collections.abc import Mapping
from typing import Any

import ml_collections

from jaxproto.config.field import TYPES
from jaxproto.errors import UserError, shorten


class WrongType(UserError):
    """Error of a value whose type is not that of its field."""


class Configuration(ml_collections.ConfigDict):
    """Configuration with one line for a value of a wrong type."""

    def __setitem__(self, key, value):
        """Sets a field; a text may be given as a whole number or a path.

        Raises:
          WrongType: The field has values of another type.
        """
        if isinstance(self.get(key), str):
            value = _as_text(value)
        try:
            super().__setitem__(key, make_configuration(value))
        except TypeError as e:
            raise WrongType(_describe(self, key, value)) from e


def _as_text(value):
    """Returns numbers and paths as the command line has them, others unchanged."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return str(value) if type(value) is int else value


def _describe(group, key, value) -> str:
    """Returns the sentence of the command line about a value of a wrong type."""
    if isinstance(old := group[key], ml_collections.ConfigDict):
        names = f"such as {next(iter(old), 'name')}"
        return f"{key} is a group of fields, {names}, not {shorten(value)}."
    path, words = _path_and_words(group, key)
    return f"{path} is {shorten(value)}; it must be {words}."


def _path_and_words(group, key) -> tuple[str, str]:
    """Returns the path of a field, and what values it may have.

    A group does not know where it is: it is the largest one whose fields it has.
    """
    from jaxproto.config import factory_fields, fields  # which import this one

    groups: dict[str, list[str]] = {}
    for path in fields.FIELDS:
        above, _, name = path.rpartition(".")
        groups.setdefault(above, []).append(name)
    found = [above for above, names in groups.items() if {*names} <= {*group}]
    above = max(found, key=lambda above: len(groups[above]), default="")
    path = f"{above}.{key}".lstrip(".")
    is_method = above == "method"
    known = factory_fields.all_fields(group["name"]) if is_method else fields.FIELDS
    if path in known:
        return path, known[path].words
    return key, TYPES.get(type(group[key]), f"of type {type(group[key]).__name__}")


def make_configuration(fields: Any) -> Any:
    """Makes a configuration of nested fields; returns other values as they are."""
    plain = isinstance(fields, Mapping) or type(fields) is ml_collections.ConfigDict
    if not plain:
        return fields
    made = Configuration()
    for key, value in fields.items():
        made[key] = value
    return made

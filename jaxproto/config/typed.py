"""Configuration whose fields name themselves when they get a value of another type."""

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
        """Sets a field.

        Raises:
          WrongType: The field has values of another type.
        """
        try:
            super().__setitem__(key, make_configuration(value))
        except TypeError as e:
            old = self[key]
            raise WrongType(f"{key} is {_describe(old)}, not {shorten(value)}.") from e


def _describe(value) -> str:
    """Returns what values a field has, from one of them."""
    if isinstance(value, ml_collections.ConfigDict):
        return f"a group of fields, such as {next(iter(value), 'name')}"
    return TYPES.get(type(value), f"of type {type(value).__name__}")


def make_configuration(fields: Any) -> Any:
    """Makes a configuration of nested fields; returns other values as they are."""
    plain = isinstance(fields, Mapping) or type(fields) is ml_collections.ConfigDict
    if not plain:
        return fields
    made = Configuration()
    for key, value in fields.items():
        made[key] = value
    return made

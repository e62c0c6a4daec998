"""Axes of a sweep: which fields of a configuration take which values.

    seed=0,1,2            each of them
    seed=0:10             0 to 9 (0:10:2 every other one), for whole numbers
    method.lam=log:1e-3:1e1:5   five from 0.001 to 10 by equal factors
    method.lam=lin:0:1:5        five from 0 to 1 by equal steps
    method.lam=1,2+method.upscale=3,4   pairs that go together

A text that holds a comma stands in double quotes.
"""

import csv
import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections

from jaxproto.config.fields import check_keys
from jaxproto.config.ranges import TYPES
from jaxproto.errors import UserError

Given = Sequence[str] | Mapping[str | tuple[str, ...], Iterable]
HOW = "such as --sweep=seed=0,1,2 or --sweep=method.lam=log:1e-3:1e1:5"
TRUTH = {"true": True, "1": True, "false": False, "0": False}


class Axis(NamedTuple):
    """Fields that change together."""

    fields: tuple[str, ...]
    values: tuple[tuple, ...]  # of the fields, one by one


def axes(config: ml_collections.ConfigDict, given: Given) -> list[Axis]:
    """The axes of a sweep over a configuration.

    Args:
      config: whose fields are changed.
      given: texts as on the command line, or {field: values} and
        {(field, field): [(value, value), ...]}.

    Raises:
      UserError: names the axis, and what is wrong with it.
    """
    if isinstance(given, Mapping):
        made = [_from_values(config, key, values) for key, values in given.items()]
    else:
        made = [_from_text(config, text) for text in given]
    if not made:
        raise UserError(f"a sweep needs an axis, {HOW}.")
    fields = [field for axis in made for field in axis.fields]
    for field in fields:
        if fields.count(field) > 1:
            raise UserError(f"two axes of the sweep change {field}; give it once.")
    return made


def _from_text(config, text: str) -> Axis:
    columns, fields = [], []
    for part in re.split(r"\+(?=[\w.]+=)", text):
        field, equals, values = part.partition("=")
        if not equals or not values:
            raise UserError(f"the axis {part!r} has no values: FIELD=VALUES, {HOW}.")
        example = _example(config, field)
        fields.append(field)
        columns.append([_typed(field, example, v) for v in _listed(values, example)])
    return _axis(fields, columns)


def _from_values(config, key, values: Iterable) -> Axis:
    fields = (key,) if isinstance(key, str) else tuple(key)
    rows = [(v,) if isinstance(key, str) else tuple(v) for v in values]
    if any(len(row) != len(fields) for row in rows):
        raise UserError(f"the axis {fields} needs {len(fields)} values in each entry.")
    columns = [
        [_typed(field, _example(config, field), v) for v in column]
        for field, column in zip(fields, zip(*rows, strict=True), strict=False)
    ]
    return _axis(fields, columns)


def _axis(fields: Sequence[str], columns: Sequence[list]) -> Axis:
    name, lengths = "+".join(fields), {len(column) for column in columns}
    if len(lengths) > 1:
        each = ", ".join(f"{f}: {len(c)}" for f, c in zip(fields, columns, strict=True))
        raise UserError(f"fields that go together need equally many values ({each}).")
    rows = tuple(zip(*columns, strict=True))
    if not rows:
        raise UserError(f"the axis {name} has no values.")
    for row in rows:
        if rows.count(row) > 1:
            raise UserError(f"the axis {name} has {_plain(row)} more than once.")
    return Axis(tuple(fields), rows)


def _plain(row: tuple) -> str:
    return ", ".join(map(str, row))


def _example(config, field: str):
    """What the configuration has in a field."""
    check_keys(config, [field])
    value = config
    for key in field.split("."):
        value = value[key]
    if isinstance(value, ml_collections.ConfigDict):
        raise UserError(f"{field} is a group of fields; name one of them.")
    if field == "method.name":
        raise UserError(
            "method.name cannot be an axis, because methods have different fields; "
            "sweep over the configuration of each."
        )
    return value


def _listed(text: str, example) -> list:
    """The values that a text stands for, not yet of the field's type."""
    whole = re.fullmatch(r"(-?\d+):(-?\d+)(?::(-?\d+))?", text)
    if whole and type(example) is int:
        start, stop, step = (int(n) for n in whole.groups(default="1"))
        if not step:
            raise UserError(f"the values {text!r} have a step of 0.")
        return list(range(start, stop, step))
    spaced = re.fullmatch(r"(log|lin):([^:,]+):([^:,]+):(\d+)", text)
    if spaced and type(example) in (int, float):
        return _spaced(text, *spaced.groups())
    return [value.strip() for value in next(csv.reader([text], skipinitialspace=True))]


def _spaced(text: str, kind: str, first: str, last: str, count: str) -> list[float]:
    try:
        a, b, n = float(first), float(last), int(count)
    except ValueError as e:
        raise UserError(f"the values {text!r} are not {kind}:FIRST:LAST:COUNT.") from e
    if n < 2 or not (math.isfinite(a) and math.isfinite(b)):
        raise UserError(f"the values {text!r} need finite ends and a count above 1.")
    if kind == "lin":
        return [a + (b - a) * i / (n - 1) for i in range(n)]
    if a <= 0 or b <= 0:
        raise UserError(f"the values {text!r} are by equal factors: ends above 0.")
    return [float(f"{a * (b / a) ** (i / (n - 1)):.6g}") for i in range(n)]


def _typed(field: str, example, value) -> Any:
    """A value as the field has it; texts are read."""
    kind = type(example)
    try:
        if kind is bool:
            return TRUTH[str(value).lower()]
        if kind is int and isinstance(value, float) and value != int(value):
            raise ValueError(value)
        return kind(value)
    except (ValueError, KeyError, TypeError, OverflowError) as e:
        words = TYPES[kind]
        raise UserError(
            f"{field} is {value!r} in the sweep; it must be {words}."
        ) from e


def product(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """Fields and values of every cell; the last axis changes fastest."""
    columns = [
        [dict(zip(axis.fields, row, strict=True)) for row in axis.values]
        for axis in axes
    ]
    return [
        {field: value for part in parts for field, value in part.items()}
        for parts in itertools.product(*columns)
    ]

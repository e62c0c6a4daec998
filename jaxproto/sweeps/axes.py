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

from jaxproto.config.checks import check_keys
from jaxproto.config.fields import TYPES
from jaxproto.config.flags import FOLLOWS
from jaxproto.errors import UserError, shorten

Given = Sequence[str] | Mapping[str | tuple[str, ...], Iterable]
HOW = "such as --sweep=seed=0,1,2 or --sweep=method.lam=log:1e-3:1e1:5"
BETWEEN = r'\+(?=[\w.]+=)(?=[^"]*(?:"[^"]*"[^"]*)*$)'  # no + inside of quotes
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
    elif isinstance(given, str) or not _texts(given):
        raise UserError(
            f"the axes {shorten(given)} are neither a "
            f"dictionary {{field: values}} nor a "
            "list of texts such as ['seed=0,1,2']."
        )
    else:
        made = [_from_text(config, text) for text in given]
    if not made:
        raise UserError(f"a sweep needs an axis, {HOW}.")
    fields = [field for axis in made for field in axis.fields]
    for field in fields:
        if fields.count(field) > 1:
            raise UserError(f"two axes of the sweep change {field}; give it once.")
    return made


def _texts(given) -> bool:
    return isinstance(given, Iterable) and all(isinstance(t, str) for t in given)


def _from_text(config, text: str) -> Axis:
    columns, fields = [], []
    for part in re.split(BETWEEN, text):
        field, equals, values = part.partition("=")
        if not equals or not values:
            raise UserError(f"the axis {part!r} has no values: FIELD=VALUES, {HOW}.")
        example = _example(config, field)
        fields.append(field)
        columns.append([_typed(field, example, v) for v in _listed(values, example)])
    return _axis(fields, columns)


def _from_values(config, key, values: Iterable) -> Axis:
    if isinstance(key, str) and isinstance(values, str):
        return _from_text(config, f"{key}={values}")
    fields = (key,) if isinstance(key, str) else tuple(key)
    name = "+".join(fields)
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise UserError(
            f"the axis {name} is {shorten(values)}; it must be a list of values."
        )
    rows = [(v,) if isinstance(key, str) else v for v in values]
    if not all(
        isinstance(row, tuple | list) and len(row) == len(fields) for row in rows
    ):
        raise UserError(f"the axis {name} needs {len(fields)} values in each entry.")
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
        raise UserError(f"the axis {name} has no values, {HOW}.")
    for row in rows:
        if rows.count(row) > 1:
            raise UserError(
                f"the axis {name} has {_plain(row)} more than once; give it once."
            )
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
    if re.match("(log|lin):", text) and type(example) in (int, float):
        return _spaced(text, *text.split(":"))
    try:
        (row,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as e:
        raise UserError(
            f"the values {shorten(text)} cannot be read "
            f"({e}): a text that holds a comma "
            'stands in double quotes, as in "mlp,cnn4",mlp.'
        ) from e
    return [value.strip() for value in row]


def _spaced(text: str, kind: str, *numbers: str) -> list[float]:
    try:
        first, last, count = numbers
        a, b, n = float(first), float(last), int(count)
    except ValueError as e:
        raise UserError(f"the values {text!r} are not {kind}:FIRST:LAST:COUNT.") from e
    if n < 2 or not (math.isfinite(a) and math.isfinite(b)):
        raise UserError(f"the values {text!r} need finite ends and a count above 1.")
    if kind == "log" and (a <= 0 or b <= 0):
        raise UserError(f"the values {text!r} are by equal factors: ends above 0.")
    shares = [i / (n - 1) for i in range(1, n - 1)]
    if kind == "lin":
        inner = [a * (1 - x) + b * x for x in shares]
    else:
        inner = [math.exp(math.log(a) * (1 - x) + math.log(b) * x) for x in shares]
    return [a, *(float(f"{value:.6g}") for value in inner), b]


def _typed(field: str, example, value) -> Any:
    """A value as the field has it; texts are read."""
    kind = type(example)
    if value == "follow" and field in FOLLOWS:
        return FOLLOWS[field]
    try:
        if kind is bool:
            return TRUTH[str(value).lower()]
        if isinstance(value, bool) or (kind is str and not isinstance(value, str)):
            raise TypeError(value)
        if kind is int and not isinstance(value, str) and value != int(value):
            raise ValueError(value)
        return kind(value)
    except (ValueError, KeyError, TypeError, OverflowError) as e:
        words = TYPES[kind]
        raise UserError(
            f"{field} is {shorten(value)} in the sweep; it must be {words}."
        ) from e


def cell_changes(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """Fields and values of every cell; the last axis changes fastest."""
    columns = [
        [dict(zip(axis.fields, row, strict=True)) for row in axis.values]
        for axis in axes
    ]
    return [
        {field: value for part in parts for field, value in part.items()}
        for parts in itertools.product(*columns)
    ]

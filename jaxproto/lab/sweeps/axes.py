"""Axes of a sweep: fields of a configuration and their values.

    seed=0,1,2            each value
    seed=0:10             0 to 9 (0:10:2 every other one), for whole numbers
    method.lam=log:1e-3:1e1:5   five from 0.001 to 10 by equal factors
    method.lam=lin:0:1:5        five from 0 to 1 by equal steps
    method.lam=1,2+method.upscale=3,4   pairs

A text value that contains a comma needs double quotes.
"""

import csv
import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import ml_collections
import numpy as np

from jaxproto.config.checks import check_keys
from jaxproto.config.field import TYPES
from jaxproto.config.fields import flatten
from jaxproto.config.flags import FOLLOWS
from jaxproto.errors import UserError, shorten

AxesSpec = Sequence[str] | Mapping[str | tuple[str, ...], Iterable]
HINT = "such as --sweep=seed=0,1,2 or --sweep=method.lam=log:1e-3:1e1:5"
FIELD_SEPARATOR = r'\+(?=[\w.]+=)(?=[^"]*(?:"[^"]*"[^"]*)*$)'  # a + outside of quotes
MAX_CELLS = 10_000  # of a sweep: each is checked before the first trains
BOOLS = {"true": True, "1": True, "false": False, "0": False}


class Axis(NamedTuple):
    """Fields of a configuration that change together."""

    fields: tuple[str, ...]
    values: tuple[tuple, ...]  # rows with a value per field


def parse_axes(config: ml_collections.ConfigDict, spec: AxesSpec) -> list[Axis]:
    """Parses the axes of a sweep over a configuration.

    Args:
      config: Configuration whose fields change.
      spec: Texts as on the command line, or {field: values} and
        {(field, field): [(value, value), ...]}.

    Raises:
      UserError: names the invalid axis and the reason.
    """
    if isinstance(spec, Mapping):
        axes = [_from_values(config, key, values) for key, values in spec.items()]
    elif _is_texts(spec):
        axes = [_from_text(config, text) for text in spec]
    else:
        raise UserError(
            f"the axes {shorten(spec)} are neither a dictionary {{field: values}} nor "
            "a list of texts such as ['seed=0,1,2']."
        )
    if not axes:
        raise UserError(f"a sweep needs an axis, {HINT}.")
    fields = [field for axis in axes for field in axis.fields]
    for field in fields:
        if fields.count(field) > 1:
            raise UserError(f"two axes of the sweep change {field}; give it once.")
    _check_number("the sweep", math.prod(len(axis.values) for axis in axes))
    return axes


def _check_number(what: str, number: int):
    """Raises UserError if there are too many cells."""
    if number > MAX_CELLS:
        raise UserError(
            f"{what} would make {number:,} cells; give at most {MAX_CELLS:,} at a time."
        )


def _is_texts(spec) -> bool:
    is_list = isinstance(spec, Iterable) and not isinstance(spec, str)
    return is_list and all(isinstance(text, str) for text in spec)


def _from_text(config, text: str) -> Axis:
    columns, fields = [], []
    for part in re.split(FIELD_SEPARATOR, text):
        field, equals, values = part.partition("=")
        if not equals or not values:
            raise UserError(f"the axis {part!r} has no values: FIELD=VALUES, {HINT}.")
        example = _example(config, field)
        fields.append(field)
        columns.append([_cast(field, example, v) for v in _parse(values, example)])
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
    columns = []
    for field, column in zip(fields, zip(*rows, strict=True), strict=False):
        example = _example(config, field)
        columns.append([_cast(field, example, v) for v in column])
    return _axis(fields, columns)


def _axis(fields: Sequence[str], columns: Sequence[list]) -> Axis:
    """Returns the axis with a column of values per field, after checks."""
    name, lengths = "+".join(fields), {len(column) for column in columns}
    if len(lengths) > 1:
        pairs = zip(fields, columns, strict=True)
        counts = ", ".join(f"{field}: {len(column)}" for field, column in pairs)
        raise UserError(f"fields that go together need equally many values ({counts}).")
    rows = tuple(zip(*columns, strict=True))
    if not rows:
        raise UserError(f"the axis {name} has no values, {HINT}.")
    row, count = Counter(rows).most_common(1)[0]
    if count > 1:
        text = ", ".join(map(str, row))
        raise UserError(f"the axis {name} has {text} more than once; give it once.")
    return Axis(tuple(fields), rows)


def _example(config, field: str):
    """Returns the value of a field in the configuration."""
    check_keys(config, [field])
    values = flatten(config)
    if field not in values:
        raise UserError(f"{field} is a group of fields; name one of them.")
    if field == "method.name":
        raise UserError(
            "method.name cannot be an axis, because methods have different fields; "
            "sweep over the configuration of each."
        )
    return values[field]


def _parse(text: str, example) -> list:
    """Parses the values of a text, before conversion to the type of the field."""
    number = r"(-?\d{1,18})"  # so that `range` has a length
    int_range = re.fullmatch(f"{number}:{number}(?::{number})?", text, re.ASCII)
    if int_range and type(example) is int:
        start, stop, step = (int(n) for n in int_range.groups(default="1"))
        if not step:
            raise UserError(f"the values {text!r} have a step of 0.")
        values = range(start, stop, step)
        _check_number(f"the values {shorten(text)}", len(values))
        return list(values)
    if re.match("(log|lin):", text) and type(example) in (int, float):
        return _spaced(text, *text.split(":"))
    try:
        (row,) = csv.reader([text], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError) as e:
        raise UserError(
            f"the values {shorten(text)} cannot be read ({e}): a text that holds a "
            'comma stands in double quotes, as in "mlp,cnn4",mlp.'
        ) from e
    return [value.strip() for value in row]


def _spaced(text: str, kind: str, *numbers: str) -> list[float]:
    """Returns the values of log:FIRST:LAST:COUNT or lin:FIRST:LAST:COUNT."""
    try:
        first, last, count = numbers
        a, b, n = float(first), float(last), int(count)
    except ValueError as e:
        raise UserError(f"the values {text!r} are not {kind}:FIRST:LAST:COUNT.") from e
    _check_number(f"the values {shorten(text)}", n)
    if n < 2 or not (math.isfinite(a) and math.isfinite(b)):
        raise UserError(f"the values {text!r} need finite ends and a count above 1.")
    if kind == "log" and (a <= 0 or b <= 0):
        raise UserError(f"the values {text!r} are by equal factors: ends above 0.")
    space: Callable = np.linspace if kind == "lin" else np.geomspace
    return [a, *(float(f"{value:.6g}") for value in space(a, b, n)[1:-1]), b]


def _cast(field: str, example, value) -> Any:
    """Converts a value or text to the type of a field."""
    kind = type(example)
    if value == "follow" and field in FOLLOWS:
        return FOLLOWS[field]
    try:
        if kind is bool:
            return BOOLS[str(value).lower()]
        if isinstance(value, str) and kind in (int, float) and not value.isascii():
            raise ValueError(value)
        if isinstance(value, bool) or (kind is str and not isinstance(value, str)):
            raise TypeError(value)
        if kind is int and not isinstance(value, str) and value != int(value):
            raise ValueError(value)
        return kind(value)
    except (ValueError, KeyError, TypeError, OverflowError) as e:
        what = f"{field} is {shorten(value)} in the sweep"
        raise UserError(f"{what}; it must be {TYPES[kind]}.") from e


def cell_changes(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """Returns fields and values of every cell; the last axis changes fastest."""
    fields = [field for axis in axes for field in axis.fields]
    cells = itertools.product(*(axis.values for axis in axes))
    return [dict(zip(fields, itertools.chain(*rows), strict=True)) for rows in cells]

"""Tables as text, Markdown, CSV or JSON, independent of the terminal."""

import csv
import io
import json
import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import tabulate

from jaxproto.errors import choose_from

Value = str | int | float | None  # None: missing
MISSING = "-"
DRAWN = {"text": "rounded_outline", "markdown": "github"}  # -> format of tabulate
DATA = ("csv", "json")  # formats for programs
FORMATS = ("text", "csv", "markdown", "json")


class TableView(NamedTuple):
    """A table for readers and for programs."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()  # sentences below the table


def render(view: TableView, form: str = "text", width: int = 0) -> str:
    """Returns the table in a format, with its notes except in CSV.

    CSV follows RFC 4180: a header line, then rows; numbers have no separators or units,
    missing values are empty. JSON has null for missing values. Text wider than `width`
    is transposed or split by columns; 0 allows any width.
    """
    choose_from("format", form, FORMATS)
    if form == "csv":
        out = io.StringIO(newline="")
        csv.writer(out).writerows([view.head, *view.rows])  # None is an empty field
        return out.getvalue()
    if form == "json":
        rows = [dict(zip(view.head, row, strict=True)) for row in view.rows]
        table = {"title": view.title, "rows": rows, "notes": list(view.notes)}
        return json.dumps(table, indent=1, ensure_ascii=False) + "\n"
    if form == "text" and width:
        return "\n".join(_draw(part, form) for part in fit(view, width))
    return _draw(view, form)


def fit(view: TableView, width: int) -> list[TableView]:
    """Returns the table in parts that fit a width.

    The parts are the table, the transposed table if that fits, or tables of the first
    column and some others. A column that is too wide beside the first one is wrapped.
    """
    rows: list[Sequence[Value]] = [view.head, *view.rows]
    columns: list[Sequence[Value]] = [*zip(*rows, strict=True)]
    first, rest = columns[0], columns[1:]
    if _width(columns) <= width:
        return [view]
    parts: list[list] = [[first]]
    for column in rest:
        if len(parts[-1]) > 1 and _width([*parts[-1], column]) > width:
            parts.append([first])
        parts[-1].append(column)
    if _width(rows) <= width:  # transposed
        parts = [rows]
    drawn = []
    for part in parts:
        if _width(part) > width:
            room = max(width - _width([first]) - 5, 10)
            wrapped = [textwrap.fill(format_value(value), room) for value in part[1]]
            part = [first, wrapped]
        head, *body = zip(*part, strict=True)
        drawn.append(TableView("", tuple(map(format_value, head)), tuple(body)))
    drawn[0] = drawn[0]._replace(title=view.title)
    return [*drawn[:-1], drawn[-1]._replace(notes=view.notes)]


def _width(columns: Sequence[Sequence[Value]]) -> int:
    """Returns the width of a table with these columns, frame and padding included."""
    texts = [[len(format_value(value)) for value in column] for column in columns]
    return 1 + sum(3 + max(head + 2, *rest, 0) for head, *rest in texts)


def _draw(view: TableView, form: str) -> str:
    numeric = [
        any(isinstance(row[k], int | float) for row in view.rows)
        for k in range(len(view.head))
    ]
    body = tabulate.tabulate(
        [[format_value(value) for value in row] for row in view.rows],
        view.head,
        tablefmt=DRAWN[form],
        disable_numparse=True,
        colalign=[("left", "right")[n] for n in numeric] if view.rows else None,
    )
    gap = "\n" * (form == "markdown")
    title = f"{view.title}\n{gap}" if view.title else ""
    notes = (gap + note for note in view.notes)
    return "\n".join([title + body, *notes]) + "\n"


def format_value(value: Value) -> str:
    """Returns a value as readers see it."""
    if value is None:
        return MISSING
    return f"{value:,}" if isinstance(value, int) else str(value)

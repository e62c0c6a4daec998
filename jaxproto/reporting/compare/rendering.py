"""The comparison as text, Markdown, LaTeX, CSV or JSON.

Readers get "mean ± deviation" in one cell; programs a column for each number, and one
for the paper of a printed number.
"""

import re
from collections.abc import Sequence

from jaxproto.errors import UserError, choose_from
from jaxproto.reporting.compare import latex
from jaxproto.reporting.compare.columns import MISSING
from jaxproto.reporting.compare.measures import SPREAD
from jaxproto.reporting.compare.ranks import BEST, SECOND, best_and_second
from jaxproto.reporting.compare.tables import Table
from jaxproto.summary import table_formats
from jaxproto.summary.table_formats import TableView, Value

FORMATS = (*table_formats.FORMATS, "latex")
NUMBER = re.compile(
    rf"(?P<mean>-?[\d,]*\.?\d+(?:e-?\d+)?)(?:{SPREAD}(?P<std>[\d.,]+))?"
    r"(?: \((?P<source>.*)\))?"
)
MARKING_NOTE = "Best in bold, second underlined."
MARKDOWN = {BEST: "**{}**", SECOND: "<u>{}</u>", "": "{}"}


def render(
    made: Table, form: str = "text", *, transpose: bool = False, siunitx: bool = False
) -> str:
    """The table and its notes in one of the formats.

    In csv and json every number has a field of its own, standard deviations in columns
    named `... std` and papers in `... source`; csv is plain and has no notes. In
    markdown and latex the best of a column is bold, the second underlined.

    Args:
      made: of `tables.table`.
      form: one of `FORMATS`.
      transpose: a column per method; for readers.
      siunitx: numbers in S columns; of latex.

    Raises:
      UserError: no such form, or one that the rest is not of.
    """
    choose_from("format", form, FORMATS)
    if siunitx and form != "latex":
        raise UserError(f"--siunitx is of --format=latex, and this is {form}.")
    if transpose and form in table_formats.DATA:
        raise UserError(
            f"--transpose is of tables for readers, and {form} has a row per method: "
            "leave it out, or give --format=markdown, latex or text."
        )
    if form in table_formats.DATA:
        view = TableView("", made.head, made.rows, made.notes)
        return table_formats.render(_apart(view), form)
    signs = [["" for _ in made.rows], *map(best_and_second, made.columns)]
    signs += [signs[0]] * (len(made.head) - len(signs))  # of a table made by hand
    lines = [*zip(*signs, strict=True)]  # by row, as the cells
    if form == "latex":
        return latex.render(
            made, lines, MARKING_NOTE, transpose=transpose, siunitx=siunitx
        )
    drawn = made.rows
    notes = made.notes
    if form == "markdown":
        drawn = tuple(
            tuple(MARKDOWN[m].format(c) for c, m in zip(*pair, strict=True))
            for pair in zip(made.rows, lines, strict=True)
        )
        notes = (*notes, MARKING_NOTE) if any(map(any, lines)) else notes
    head, *body = (
        zip(made.head, *drawn, strict=True) if transpose else (made.head, *drawn)
    )
    return table_formats.render(TableView("", head, tuple(body), notes), form)


def _apart(view: TableView) -> TableView:
    """The same with a number at most in each cell."""
    columns = [
        column
        for k, title in enumerate(view.head)
        for column in _parts(title, [str(row[k]) for row in view.rows])
    ]
    head, *rows = zip(*columns, strict=True)
    return view._replace(head=tuple(map(str, head)), rows=tuple(rows))


def _parts(title: str, cells: Sequence[str]) -> list[list[Value]]:
    """A column as columns, titles first: of mean, deviation, source of each number."""
    texts = ["" if c == MISSING else c for c in cells]
    if title == "method" or title.endswith(("published by", "privacy of a")):
        return [[title, *(c or None for c in texts)]]
    found = [[_number(c) for c in text.split("; ") if c] for text in texts]
    columns: list[list[Value]] = []
    for n in range(max([1, *map(len, found)])):
        name = f"{title} {n + 1}" if n else title
        parts = [row[n] if n < len(row) else {} for row in found]
        for key, suffix in (("mean", ""), ("std", " std"), ("source", " source")):
            values = [part.get(key) for part in parts]
            if key == "mean" or any(v is not None for v in values):
                columns.append([name + suffix, *values])
    return columns


def _number(cell: str) -> dict[str, Value]:
    """Mean, deviation and source of one printed number."""
    found = NUMBER.fullmatch(cell)
    if found is None:
        raise AssertionError(f"a cell of numbers holds {cell!r}")
    mean, std = (found[key] and found[key].replace(",", "") for key in ("mean", "std"))
    return {
        "mean": _plain(mean),
        "std": None if std is None else _plain(std),
        "source": found["source"],
    }


def _plain(number: str) -> Value:
    """The number with the digits that are printed, where a float keeps them."""
    return float(number) if "." in number or "e" in number else int(number)

"""A table as text, Markdown, LaTeX or CSV."""

import csv
import io
from collections.abc import Sequence

import tabulate

from jaxproto.compare.tables import MISSING, SPREAD, Table
from jaxproto.errors import UserError

FORMATS = {"text": "rounded_outline", "markdown": "github", "latex": "latex_booktabs"}
CSV = "csv"


def render(made: Table, form: str = "text") -> str:
    """The table and its notes as text, markdown, latex or csv.

    In csv every number has a field of its own, standard deviations in columns named
    `... std`, what is missing is empty, and notes are lines after the rows that begin
    with `#`.

    Raises:
      UserError: no such form.
    """
    if form == CSV:
        return _csv(made)
    if form not in FORMATS:
        there = ", ".join([*FORMATS, CSV])
        raise UserError(f"unknown format {form!r}; there are: {there}.")
    body = tabulate.tabulate(
        made.rows, made.head, tablefmt=FORMATS[form], disable_numparse=True
    )
    mark = {"latex": "% ", "markdown": "\n"}.get(form, "")
    return "\n".join([body, *(f"{mark}{note}" for note in made.notes)]) + "\n"


def _csv(made: Table) -> str:
    columns = [
        field
        for k, title in enumerate(made.head)
        for field in _fields(title, [row[k] for row in made.rows])
    ]
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(zip(*columns, strict=True))
    return out.getvalue() + "".join(f"# {note}\n" for note in made.notes)


def _fields(title: str, cells: Sequence[str]) -> list[list[str]]:
    """One column, or mean and standard deviation; names and printed numbers as are."""
    if title == "method" or "published" in title:  # texts
        return [[title, *("" if c == MISSING else c for c in cells)]]
    plain = ["" if c == MISSING else c.replace(",", "") for c in cells]
    if not any(SPREAD in c for c in plain):
        return [[title, *plain]]
    means, stds = zip(*(c.partition(SPREAD)[::2] for c in plain), strict=True)
    return [[title, *means], [f"{title} std", *stds]]

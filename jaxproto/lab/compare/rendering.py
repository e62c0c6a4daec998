"""A comparison as text, Markdown, LaTeX, CSV or JSON."""

import json
from collections.abc import Sequence

from jaxproto.errors import UserError, choose_from
from jaxproto.lab.compare import latex
from jaxproto.lab.compare.frames import frame
from jaxproto.lab.compare.ranks import BEST, SECOND, best_and_second
from jaxproto.lab.compare.tables import Table
from jaxproto.summary import table_formats
from jaxproto.summary.table_formats import MISSING, TableView

FORMATS = (*table_formats.FORMATS, "latex")
MARKING_NOTE = "Best in bold, second underlined."
MARKDOWN = {BEST: "**{}**", SECOND: "<u>{}</u>", "": "{}"}


def render(
    table: Table,
    form: str = "text",
    *,
    transpose: bool = False,
    siunitx: bool = False,
    width: int = 0,
) -> str:
    """Returns the table and its notes in a format.

    In csv and json every number has a field of its own, standard deviations in columns
    named `... std` and papers in `... source`; csv is plain and has no notes. In
    markdown and latex the best of a column is bold, the second underlined. In text and
    markdown runs of unequal length have tables of their own.

    Args:
      table: value of `tables.table`.
      form: one of `FORMATS`.
      transpose: whether each method has a column; not in csv and json.
      siunitx: whether numbers are in S columns; only in latex.
      width: columns of the terminal, as in `table_formats.render`.

    Raises:
      UserError: there is no such form, or it does not have the other options.
    """
    choose_from("format", form, FORMATS)
    if siunitx and form != "latex":
        raise UserError(f"--siunitx is of --format=latex, and this is {form}.")
    if transpose and form in table_formats.DATA:
        raise UserError(
            f"--transpose is of tables for readers, and {form} has a row per method: "
            "leave it out, or give --format=markdown, latex or text."
        )
    if form == "csv":
        return frame(table).to_csv(lineterminator="\r\n")
    if form == "json":
        return _json(table)
    marks = [best_and_second(column) for column in table.columns]
    note = [MARKING_NOTE] * any(map(any, marks))
    if form == "latex":
        return latex.render(table, marks, note, transpose=transpose, siunitx=siunitx)
    texts = [[entry.text for entry in column.entries] for column in table.columns]
    if form == "markdown":
        texts = [
            [MARKDOWN[mark].format(text) for text, mark in zip(*pair, strict=True)]
            for pair in zip(texts, marks, strict=True)
        ]
    notes = (*table.notes, *note) if form == "markdown" else table.notes
    drawn = []
    for title, *grid in _blocks(table, texts):
        first, *others = zip(*grid, strict=True) if transpose else grid
        drawn.append(TableView(title, tuple(first), tuple(others)))
    drawn[-1] = drawn[-1]._replace(notes=notes)
    return "\n".join(table_formats.render(view, form, width) for view in drawn)


def _json(table: Table) -> str:
    rows = frame(table).reset_index().to_json(orient="records", double_precision=15)
    content = {"title": "", "rows": json.loads(rows), "notes": list(table.notes)}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _blocks(table: Table, texts: Sequence[Sequence[str]]) -> list[list]:
    """Returns title, head and rows of each table: one, or one per block.

    Runs on a data set that differ in length make several blocks of it.
    """
    blocks = list(dict.fromkeys(c.dataset for c in table.columns))
    if len({name.partition(", ")[0] for name in blocks}) == len(blocks):
        return [["", table.head, *zip(table.request.names, *texts, strict=True)]]
    tables = []
    for block in blocks:
        indices = [i for i, c in enumerate(table.columns) if c.dataset == block]
        head = (table.head[0], *(table.columns[i].title for i in indices))
        rows = zip(table.request.names, *(texts[i] for i in indices), strict=True)
        known = [row for row in rows if {*row[1:]} != {MISSING}]
        tables.append([block or "all", head, *known])
    return tables

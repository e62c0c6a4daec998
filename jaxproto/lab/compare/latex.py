"""A comparison as a LaTeX table, a file for LaTeX's input command.

It needs booktabs. With siunitx numbers are in S columns, aligned at their points.
"""

import itertools
import re
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from jaxproto.lab.compare.columns import Column
from jaxproto.lab.compare.measures import SPREAD
from jaxproto.lab.compare.ranks import BEST, SECOND
from jaxproto.lab.compare.tables import Table
from jaxproto.papers import tables
from jaxproto.summary.table_formats import MISSING

SPECIAL = {
    **{c: f"\\{c}" for c in "%$#&_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "|": "\\textbar{}",
    "±": "$\\pm$",
}
NUMBER = re.compile(rf"(-?)([\d,]+)(?:\.(\d+))?(?:{SPREAD}([\d,]+(?:\.\d+)?))?")
TINY = re.compile(r"(\d(?:\.\d+)?)e(-\d+)")  # p below 0.001
LOOKS = {BEST: "\\textbf{%s}", SECOND: "\\underline{%s}", "": "%s"}
SETUP = (
    "\\sisetup{separate-uncertainty=true, retain-zero-uncertainty=true, "
    "detect-weight=true, detect-family=true, mode=text}"
)


class Piece(NamedTuple):
    """A cell of the grid."""

    text: str
    mark: str = ""  # best, second or ""
    bare: bool = True  # a title, never a number


def render(
    table: Table,
    marks: Sequence[Sequence[str]],
    note: Sequence[str],
    *,
    transpose: bool,
    siunitx: bool,
) -> str:
    """Returns a float whose caption explains the numbers; other notes are comments.

    Args:
      table: as `transpose` and `siunitx`, an argument of `rendering.render`.
      marks: best, second or "", by column and cell.
      note: sentence that explains the marks; [] without any.
    """
    groups = [] if transpose else _groups(table.columns)
    columns = _columns(table, marks, bool(groups))
    if transpose:
        columns = [*zip(*columns, strict=True)]
    draw = _aligned if siunitx and not transpose else partial(_plain, siunitx=siunitx)
    kinds, cells = zip(*map(draw, columns), strict=True)
    top, *body = (" & ".join(row) + " \\\\" for row in zip(*cells, strict=True))
    caption = [*table.notes[: table.caption], *note]
    return "\n".join(
        [
            f"% \\usepackage{{booktabs}}{' and {siunitx} of version 3' * siunitx}",
            "\\begin{table}",
            "\\centering",
            *([SETUP] if siunitx else []),
            f"\\caption{{{' '.join(map(escaped, caption))}}}",
            f"\\begin{{tabular}}{{{''.join(kinds)}}}",
            "\\toprule",
            *_spanning(groups),
            top,
            "\\midrule",
            *body,
            "\\bottomrule",
            "\\end{tabular}",
            "\\end{table}",
            *(f"% {' '.join(note.split())}" for note in table.notes[table.caption :]),
            "",
        ]
    )


def escaped(text: str) -> str:
    """Returns the LaTeX source that prints a text."""
    plain = "".join(SPECIAL.get(c, c) for c in text)
    return re.sub(r"-(?=-)", "-{}", plain)  # no dash of two hyphens


def _groups(columns: Sequence[Column]) -> list[tuple[str, int]]:
    """Returns data sets with their numbers of columns, if there are several."""
    grouped = itertools.groupby(column.dataset for column in columns)
    groups = [(name, len([*same])) for name, same in grouped]
    return groups if any(name for name, _ in groups) else []


def _spanning(groups: Sequence[tuple[str, int]]) -> list[str]:
    """Returns a line of data sets over their columns, with a rule below each."""
    if not groups:
        return []
    cells, rules, first = [""], [], 2
    for name, number in groups:
        data, comma, length = name.partition(", ")
        text = escaped(tables.display_dataset(data) + comma + length)
        cells.append(f"\\multicolumn{{{number}}}{{c}}{{{text}}}")
        rules += [f"\\cmidrule(lr){{{first}-{first + number - 1}}}"] if name else []
        first += number
    return [" & ".join(cells) + " \\\\", " ".join(rules)]


def _columns(
    table: Table, marks: Sequence[Sequence[str]], spanned: bool
) -> list[Sequence[Piece]]:
    """Returns the columns; titles lack the data set if a spanning head has it."""
    columns: list[Sequence[Piece]] = [
        [*map(Piece, (table.head[0], *table.request.names))]
    ]
    for column, column_marks in zip(table.columns, marks, strict=True):
        title = Piece(column.title if spanned else column.name)
        pairs = zip(column.entries, column_marks, strict=True)
        columns.append([title, *(Piece(e.text, mark, False) for e, mark in pairs)])
    return columns


Drawn = tuple[str, list[str]]  # type of a column for tabular, and its cells


def _plain(column: Sequence[Piece], siunitx: bool = False) -> Drawn:
    """Returns a column whose numbers are not aligned at their points."""
    values = [p for p in column if not p.bare and p.text != MISSING]
    numeric = all(_number(p) or TINY.fullmatch(p.text) for p in values)
    kind = "r" if numeric and not all(p.bare for p in column) else "l"
    written = [_num(p) if siunitx and _number(p) else _text(p) for p in column]
    return kind, [LOOKS[p.mark] % text for p, text in zip(column, written, strict=True)]


def _aligned(column: Sequence[Piece]) -> Drawn:
    """Returns an S column; texts and underlined numbers are in braces."""
    numbers = [m for m in map(_number, column) if m]
    if not numbers:
        return _plain(column)
    before = max(len(_digits(m[2])) for m in numbers)  # digits before the point
    after = max(len(m[3] or "") for m in numbers)
    spread = max(len(_digits(m[4])) for m in numbers)
    sign = "-" * any(m[1] for m in numbers)
    form = f"{sign}{before}.{after}{f'({spread})' * bool(spread)}"
    cells = []
    for piece in column:
        number = _number(piece)
        if number is None:
            cells.append(f"{{{_text(piece)}}}")
            continue
        zeros = "0" * (before - len(_digits(number[2])))
        pad = f"\\phantom{{{zeros}}}" if zeros else ""
        looks = {
            BEST: f"\\bfseries {_siunitx(piece)}",
            SECOND: f"{{{pad}{LOOKS[SECOND] % _num(piece)}}}",
            "": _siunitx(piece),
        }
        cells.append(looks[piece.mark])
    return f"S[table-format={form}]", cells


def _number(piece: Piece) -> re.Match[str] | None:
    return None if piece.bare else NUMBER.fullmatch(piece.text)


def _digits(number: str | None) -> str:
    return re.sub(r"\D", "", number or "")


def _siunitx(piece: Piece) -> str:
    """Returns a number in the input syntax of siunitx."""
    return piece.text.replace(",", "").replace(SPREAD, " +- ")


def _num(piece: Piece) -> str:
    return f"\\num{{{_siunitx(piece)}}}"


def _text(piece: Piece) -> str:
    if piece.text == MISSING:
        return "--"
    tiny = TINY.fullmatch(piece.text)
    if tiny:
        return f"${tiny[1]} \\times 10^{{{int(tiny[2])}}}$"
    return escaped(piece.text)

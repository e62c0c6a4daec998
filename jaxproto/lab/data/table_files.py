"""Tables from csv and parquet files, as data frames whose rows have places.

A csv file is utf-8, quoted as Python's csv module does; blank lines are nothing. Its
cells are texts. Its first line is a header if it has one of the names text and label,
if the user names columns, or if it has words above columns of numbers.
"""

import csv
import dataclasses
import functools
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from jaxproto import errors
from jaxproto.data import labels

TEXT, LABEL = "text", "label"  # columns that a header of texts names
SOME = 1_000  # first rows that tell whether the first one is a header
LONGEST_NAME = 60  # characters of a column's name
LONGEST = 2**24  # characters of a field
SEPARATORS = {";": "';'", "\t": "a tab", "|": "'|'"}
EXTRA = "pip install 'jaxproto[parquet]'"


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of a file."""

    place: str  # name of the data set and file, for messages
    frame: pd.DataFrame  # columns are numbered in a csv file without header
    header: bool
    lines: Sequence[int] = ()  # line of each row in a csv file

    def row(self, i: int) -> str:
        """Returns the place of row `i`, from 0."""
        where = f"line {self.lines[i]}" if self.lines else f"row {i}"
        return f"{self.place}, {where}"

    @functools.cached_property
    def numbers(self) -> dict:
        """Column -> its cells as numbers, where most that have a value are numbers."""
        return numeric_columns(self.frame)


def read_parquet(file: str, name: str, columns: Sequence[str]) -> Table:
    """Reads a parquet file."""
    try:
        frame = pd.read_parquet(file).reset_index(drop=True)
    except ImportError as error:
        raise errors.UserError(
            f"{name}: parquet files need the package 'pyarrow', which is missing. "
            f"Install it: {EXTRA}"
        ) from error
    except Exception as error:  # pyarrow raises half a dozen kinds
        raise errors.UserError(
            f"{name}: {file} cannot be read as parquet ({errors.message_of(error)})."
        ) from error
    frame.columns = frame.columns.map(str)
    _check_header(f"{name}: {file}", [*frame.columns], columns)
    return Table(f"{name}: {file}", frame, True)


def read_csv(file: str, name: str, columns: Sequence[str]) -> Table:
    """Reads a csv file; `columns` are those that its header must have, if any."""
    place = f"{name}: {file}"
    rows, lines = _cells(file, place)
    if not rows:
        return Table(place, pd.DataFrame({0: [], 1: []}, dtype=object), False)
    names = [cell.strip() for cell in rows[0]]
    known = () if columns else {name.lower() for name in names} & {TEXT, LABEL}
    if not columns and not known and not _is_header(rows):
        _check_no_header(rows, f"{place}, line {lines[0]}")
        return Table(place, pd.DataFrame(rows, dtype=object), False, lines)
    names = [name.lower() if name.lower() in known else name for name in names]
    _check_header(f"{place}, line {lines[0]}", names, columns)
    frame = pd.DataFrame(rows[1:], None, names, object)
    return Table(place, frame, True, lines[1:])


def _cells(file, place):
    """Reads the cells of all rows, and the line on which each row ends."""
    content = _text(file, place)
    rows, lines = [], []
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    limit = csv.field_size_limit(LONGEST)
    try:
        for row in filter(None, reader):
            rows.append(row)
            lines.append(reader.line_num)
            if len(row) != max(len(rows[0]), 2):
                _refuse_width(row, max(len(rows[0]), 2), f"{place}, line {lines[-1]}")
    except csv.Error as error:
        raise errors.UserError(
            f"{place}, line {reader.line_num}: {error}. Quote a text that has commas, "
            'quotes or line ends, and write a quote in it as "".'
        ) from error
    finally:
        csv.field_size_limit(limit)
    return rows, lines


def _text(file, place):
    """Returns the content of a file."""
    try:
        content = Path(file).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise errors.UserError(
            f"{place}, line {line}: not utf-8 ({error.reason}). Save it as utf-8."
        ) from error
    except OSError as error:
        raise errors.UserError(f"{place} cannot be read: {error.strerror}.") from error
    if "\0" in content:
        line = content[: content.index("\0")].count("\n") + 1
        raise errors.UserError(
            f"{place}, line {line}: a NUL byte, which no text has. Save the file as "
            "utf-8 text."
        )
    return content


def _refuse_width(row, width, place):
    if len(row) == 1 and (found := [s for s in SEPARATORS if s in row[0]]):
        raise errors.UserError(
            f"{place}: its fields are separated by {SEPARATORS[found[0]]}, not by "
            f"commas. Save it with commas, for example by pandas.read_csv(FILE, "
            f"sep={found[0]!r}).to_csv(FILE, index=False)."
        )
    raise errors.UserError(
        f"{place}: {len(row)} fields where {width} belong. Quote texts that have "
        "commas; if there are more columns, name them in the first line."
    )


def numeric_columns(frame: pd.DataFrame) -> dict:
    """Returns column -> numbers, NaN where a cell is none, of columns of numbers.

    These are columns in which most cells that have a value are numbers.
    """
    found = {}
    for name, column in frame.items():
        values = _to_numbers(column)
        is_number_N = values.notna()
        if is_number_N.all():
            is_missing_N = ~is_number_N
        else:
            texts = (isinstance(c, str) and labels.is_missing(c) for c in column)
            is_missing_N = column.isna() | np.fromiter(texts, bool, len(column))
        if is_number_N.sum() > (~is_missing_N).sum() / 2:
            found[name] = values
    return found


def _to_numbers(column):
    if not pd.api.types.is_numeric_dtype(column):
        column = column.astype(object)
    return pd.to_numeric(column, errors="coerce")


def _is_header(rows):
    """Returns whether the first row has words, or no value, above all numbers."""
    numeric = [*numeric_columns(pd.DataFrame(rows[1:SOME], dtype=object))]
    words = _to_numbers(pd.Series(rows[0], dtype=object)).isna()
    return bool(numeric) and all(words[numeric])


def _check_no_header(rows, place):
    """Raises UserError if a first row looks like a header, or like more columns.

    It looks like a header if its label is a word among numbers, or occurs once while
    all others occur twice at least, and if it counts columns, as pandas does.
    """
    first, last = rows[0], len(rows[0]) - 1
    columns = numeric_columns(pd.DataFrame(rows[:SOME], dtype=object))
    numeric = {*columns} >= {*range(last)}
    if not numeric and len(first) != 2:
        raise errors.UserError(
            f"{place}: {len(first)} fields where 2 belong, a text and its label. Quote "
            "texts that have commas; if there are more columns, name them in the first "
            "line, and those to read by --config.data.columns=TEXT,LABEL."
        )
    count = Counter(row[-1].strip() for row in rows)
    once = [label for label, number in count.items() if number == 1]
    if max(map(len, first)) <= LONGEST_NAME and (
        (once == [first[-1].strip()] and len(count) > 2)
        or (numeric and first == [*map(str, range(len(first)))] and len(first) > 2)
        or (last in columns and pd.isna(columns[last][0]))
    ):
        given = ",".join(first[-1:] if numeric else first)
        raise errors.UserError(
            f"{place}: {errors.first_few(first)} looks like a header. Name the columns "
            f"to read, the label last, by --config.data.columns={given}; or, if it is "
            f"an example, write a header above it, such as {TEXT},{LABEL}.",
            advice=[{"data.columns": given}],
        )


def _check_header(place, names, columns):
    """Raises UserError for a missing column, or one that is there twice."""
    shown = errors.first_few(names)
    for column in dict.fromkeys((*columns, *names)):
        if column not in names:
            raise errors.UserError(
                f"{place}: the header {shown} has no column {column!r}, which "
                "data.columns names. Give columns of the header."
            )
        if column and names.count(column) > 1:
            raise errors.UserError(
                f"{place}: the header {shown} has the column {column!r} "
                f"{names.count(column)} times. Name each column once."
            )

"""Data sets of texts from csv files: a text and a label in each row."""

import csv
import io
import os
from pathlib import Path

import numpy as np

from jaxproto import errors
from jaxproto.data import dataset, labels
from jaxproto.data.resize import check_not_text
from jaxproto.io import atomic

COLUMNS = ("text", "label")  # their order in a file without a header row
TRAIN, TEST = "train.csv", "test.csv"
LONGEST = 2**24  # characters of a field
MANY = 10  # rows from which on labels must repeat


def load(path: str | os.PathLike, pixels: int = 0) -> dataset.Dataset:
    """Reads the data set in a csv file or in a folder.

    A folder has train.csv and, for an official test part, test.csv. Two paths joined by
    a comma are such a pair, too. A header row names the columns `text` and `label`;
    other columns are left out. Without a header, a row is a text and a label. Files are
    utf-8, quoted as Python's csv module does. Labels are whole numbers or words
    (`data.labels`). `pixels` must be 0, as texts have none.
    """
    name = f"csv:{path}"
    check_not_text(name, pixels)
    parts = [_read(file, name) for file in _files(os.path.expanduser(path), name)]
    _check_repeat(name, [label for part in parts for _, label in part])
    string = np.dtypes.StringDType()
    x = [np.array([text for text, _ in part], string) for part in parts]
    y = [np.array([label for _, label in part], string) for part in parts]
    test = (x[1], y[1]) if len(parts) > 1 else None
    return dataset.make_dataset(name, (x[0], y[0]), test)


def _files(path, name):
    """Returns the training file, and the test file where there is one."""
    pair = path.split(",")
    if os.path.isdir(path):
        files = [os.path.join(path, TRAIN)]
        test = os.path.join(path, TEST)
        files += [test] * os.path.exists(test)
    elif len(pair) == 2 and not os.path.exists(path):
        files = [os.path.expanduser(part) for part in pair]
    else:
        files = [path]
    for file in files:
        if os.path.exists(file):
            atomic.check_regular(name, file)
        else:
            raise errors.UserError(
                f"{name}: no such file. Looked for {os.path.abspath(file)}. Give a csv "
                f"file, a folder with {TRAIN} and {TEST}, or two files joined by a "
                "comma."
            )
    return files


def _read(file, name):
    """Reads text and label of each row of a file, without blank lines."""
    try:
        content = Path(file).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise errors.UserError(
            f"{name}: {file}, line {line}: not utf-8 ({error.reason}). "
            "Save it as utf-8."
        ) from error
    except OSError as error:
        raise errors.UserError(
            f"{name}: {file} cannot be read: {error.strerror}."
        ) from error
    rows, columns, width = [], (0, 1), 2
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    limit = csv.field_size_limit(LONGEST)
    try:
        for i, row in enumerate(filter(None, reader)):
            line = f"{name}: {file}, line {reader.line_num}"
            if i == 0 and (positions := _header(row, line)):
                columns, width = positions, len(row)
                continue
            _check_row(row, columns, width, line)
            rows.append((row[columns[0]], row[columns[1]].strip()))
    except csv.Error as error:
        raise errors.UserError(
            f"{name}: {file}, line {reader.line_num}: {error}. Quote a text that has "
            'commas, quotes or line ends, and write a quote in it as "".'
        ) from error
    finally:
        csv.field_size_limit(limit)
    return rows


def _header(row, line):
    """Returns the positions of the columns that a row names; None if it names none."""
    names = [cell.strip().lower() for cell in row]
    present = [column in names for column in COLUMNS]
    if any(present) and not all(present):
        missing = COLUMNS[present.index(False)]
        raise errors.UserError(
            f"{line}: the header {', '.join(row)} has no column {missing!r}. Name the "
            f"columns {' and '.join(COLUMNS)}."
        )
    for column in COLUMNS:
        if names.count(column) > 1:
            raise errors.UserError(
                f"{line}: the header {', '.join(row)} has the column {column!r} "
                f"{names.count(column)} times. Name each column once."
            )
    return tuple(map(names.index, COLUMNS)) if all(present) else None


def _check_row(row, columns, width, line):
    if len(row) != width:
        raise errors.UserError(
            f"{line}: {len(row)} fields where {width} belong. Quote texts that have "
            "commas; name the columns text and label in a header row if there are more."
        )
    if any("\0" in row[column] for column in columns):
        raise errors.UserError(
            f"{line}: a NUL byte, which no text has. Save the file as utf-8 text."
        )
    if labels.is_missing(label := row[columns[1]]):
        raise errors.UserError(
            f"{line}: no label ({label.strip() or 'empty'}). Give it one, or remove "
            "the row; a class of such a name needs another."
        )


def _check_repeat(name, label_N):
    different = sorted(set(label_N))
    if len(label_N) >= MANY and len(different) > len(label_N) / 2:
        raise errors.UserError(
            f"{name}: {len(different)} different labels in {len(label_N)} rows, such "
            f"as {different[0][:40]!r}. A row is a text and then its label; in another "
            "order, name the columns text and label in a header row."
        )

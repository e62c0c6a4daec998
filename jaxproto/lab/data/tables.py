"""Data sets from tables: texts or numbers with a label in each row.

Texts are in the column `text` and their labels in `label`. Of a table of numbers, the
label is the column `label`, or else the last one. `data.columns` names others: inputs,
then the label. In a csv file without a header, the label is last.
"""

import os
from collections.abc import Callable

import numpy as np
import pandas as pd

from jaxproto import errors
from jaxproto.data import dataset, labels
from jaxproto.data.resize import check_not_text
from jaxproto.io import atomic
from jaxproto.lab.data import table_files
from jaxproto.lab.data.table_files import LABEL, TEXT

INDEX = {"", "Unnamed: 0", "__index_level_0__"}  # of a frame, as pandas writes it
PARTS = "train", "test"  # files of a folder
MANY = 10  # rows from which on labels must repeat


def load(
    path: str | os.PathLike,
    pixels: int = 0,
    columns: str = "",
    *,
    kind: str = "csv",
    read: Callable = table_files.read_csv,
) -> dataset.Dataset:
    """Reads the data set in a file or in a folder.

    A folder has train.csv and, for an official test part, test.csv. Two paths joined by
    a comma are such a pair, too.

    Args:
      pixels: must be 0.
      columns: names joined by commas: inputs, then the label; the label alone takes all
        others as inputs; "" finds them.
    """
    name = f"{kind}:{path}"
    check_not_text(name, pixels)
    chosen = [column.strip() for column in columns.split(",") if column.strip()]
    files = _files(os.path.expanduser(path), name, kind)
    tables = [read(file, name, chosen) for file in files]
    parts: list[dataset.Part] = []
    notes, first = [], None
    for table in tables:
        inputs, label = _columns(table, chosen)
        first = first or inputs
        left = [c for c in table.frame if c not in (*inputs, label)]
        if {*left} & INDEX and table is tables[0]:
            notes.append(f"{name}: the column of the index is left out")
        if len(first) > 1 and table.header:
            inputs = _same(table, first, inputs)
        x = _values(table, inputs) if _numeric(table, inputs) else _texts(table, inputs)
        parts.append((x, _labels(table, label)))
    _check_repeat(name, [label for _, y in parts for label in y.tolist()])
    test = parts[1] if len(parts) > 1 else None
    data = dataset.make_dataset(name, parts[0], test)
    return data._replace(notes=(*notes, *data.notes))


def load_parquet(path, pixels: int = 0, columns: str = "") -> dataset.Dataset:
    """Reads the data set in a parquet file, or in a folder of them, as `load` does."""
    return load(path, pixels, columns, kind="parquet", read=table_files.read_parquet)


def _files(path, name, kind):
    """Returns the training file, and the test file where there is one."""
    pair = path.split(",")
    if os.path.isdir(path):
        train, test = (os.path.join(path, f"{part}.{kind}") for part in PARTS)
        files = [train] + [test] * os.path.exists(test)
    elif len(pair) == 2 and not os.path.exists(path):
        files = [os.path.expanduser(part) for part in pair]
    else:
        files = [path]
    for file in files:
        if os.path.exists(file):
            atomic.check_regular(name, file)
        else:
            raise errors.UserError(
                f"{name}: no such file. Looked for {os.path.abspath(file)}. Give a "
                f"{kind} file, a folder with train.{kind} and test.{kind}, or two "
                "files joined by a comma."
            )
    return files


def _columns(table, chosen):
    """Returns the columns of inputs, and that of labels."""
    names = [*table.frame]
    if not table.header:
        return names[:-1], names[-1]
    if not chosen and TEXT in names and LABEL in names:
        return [TEXT], LABEL
    label = chosen[-1] if chosen else LABEL if LABEL in names else names[-1]
    inputs = [c for c in names if c != label and c not in INDEX]
    if not chosen:
        _check_told_apart(table, inputs, label)
    return chosen[:-1] or inputs, label


def _check_told_apart(table, inputs, label):
    """Raises UserError if a header does not say which columns are to be read."""
    words = [c for c in inputs if c not in table.numbers]
    typed = not table.lines and len(inputs) == 1  # a column of texts in parquet
    if inputs and not typed and (words or TEXT in table.frame):
        missing = LABEL if TEXT in table.frame else TEXT
        text = TEXT if missing == LABEL else words[0]
        given = f"{text},{label if label != text else inputs[0]}"
        raise errors.UserError(
            f"{table.place}: the header {errors.first_few(table.frame)} has no column "
            f"{missing!r}. Name the columns to read, one of texts or those of numbers, "
            f"and then the label, such as --config.data.columns={given}.",
            advice=[{"data.columns": given}],
        )


def _same(table, first, inputs):
    """Returns the inputs in the order of the training part."""
    if {*first} != {*inputs}:
        other = sorted({*first} ^ {*inputs}, key=str)
        raise errors.UserError(
            f"{table.place}: the columns of both parts differ "
            f"({errors.first_few(other)}). Give both the same."
        )
    return first


def _numeric(table, inputs):
    """Returns whether inputs are numbers; the column `text` has none."""
    return inputs != [TEXT] and {*inputs} <= {*table.numbers}


def _values(table, inputs):
    """Returns numbers [N, columns]; raises UserError for a cell that is none."""
    x = np.empty((len(table.frame), len(inputs)), np.float32)
    for i, column in enumerate(inputs):
        cells, value_N = table.frame[column], table.numbers[column]
        if (bad_N := value_N.isna().to_numpy()).any():
            row = int(bad_N.argmax())
            cell = cells.iloc[row]
            empty = not isinstance(cell, str) or labels.is_missing(cell)
            raise errors.UserError(
                f"{table.row(row)}: column {column!r} has "
                f"{'no value' if empty else errors.shorten(cell)}, where others have "
                f"numbers ({bad_N.sum()} of {len(x)} rows). Give a number, or remove "
                "the rows, for example by frame.dropna()."
            )
        with np.errstate(over="ignore"):  # make_dataset refuses infinity
            x[:, i] = value_N.to_numpy(float)
    return x


def _texts(table, inputs):
    """Returns the texts [N] of one column."""
    if len(inputs) != 1:
        words = next(c for c in inputs if c not in table.numbers)
        raise errors.UserError(
            f"{table.place}: of the inputs {errors.first_few(inputs)}, {words!r} has "
            "words. Name one column of texts and the label by data.columns, or columns "
            "of numbers and the label."
        )
    cells = table.frame[inputs[0]]
    wrong = [i for i, cell in enumerate(cells) if not isinstance(cell, str)]
    if wrong:
        raise errors.UserError(
            f"{table.row(wrong[0])}: column {inputs[0]!r} has "
            f"{errors.shorten(cells.iloc[wrong[0]])}, no text. Give a text, or remove "
            "the row."
        )
    return np.array(cells.tolist(), np.dtypes.StringDType())


def _labels(table, column):
    """Returns the labels [N]: integers, or texts; raises UserError for missing ones."""
    cells = table.frame[column]
    for i, cell in enumerate(cells):
        if labels.is_missing(cell) if isinstance(cell, str) else pd.isna(cell):
            shown = cell.strip() if isinstance(cell, str) and cell.strip() else "empty"
            raise errors.UserError(
                f"{table.row(i)}: no label ({shown}). Give it one, or remove the row; "
                "a class of such a name needs another."
            )
    if pd.api.types.is_integer_dtype(cells):
        return cells.to_numpy(np.int64)
    return np.array([str(cell).strip() for cell in cells], np.dtypes.StringDType())


def _check_repeat(name, label_N):
    different = sorted(set(label_N), key=str)
    if len(label_N) >= MANY and len(different) > len(label_N) / 2:
        raise errors.UserError(
            f"{name}: {len(different)} different labels in {len(label_N)} rows, such "
            f"as {str(different[0])[:40]!r}. The label is a class; it is the column "
            f"{LABEL}, or the last one. Name another by data.columns."
        )

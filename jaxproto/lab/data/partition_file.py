"""Partitions in CSV files: from other programs, or `indices.csv` of a run.

A file has a line per example, with these columns in any order:

    client   from 0 to the number of clients - 1
    index    row of the data set: the official training part from 0 on, then the test
             part, each in its own order (docs/decisions.md#pool)
    part     train, test, or validation (read as train: `data.validation_share` draws
             validation examples again); without this column, the examples of every
             client are divided as in other partitions

Other columns are ignored. Examples that no line names belong to no client.
"""

import csv
import dataclasses
import os
import re

import numpy as np

from jaxproto.data.dataset import Dataset
from jaxproto.data.partitions import partition, public_examples
from jaxproto.data.partitions.label_skew import rows_by_class
from jaxproto.data.partitions.partition import (
    Partition,
)
from jaxproto.errors import UserError
from jaxproto.io import atomic

NEEDED = ("client", "index")
# whether an example is for training, by the column `part`
PART = {"train": True, "validation": True, "test": False}


@dataclasses.dataclass(frozen=True)
class Listed:
    """Lines of a file, in its order."""

    number: np.ndarray  # [R] line number in the file, from 1
    client: np.ndarray  # [R]
    index: np.ndarray  # [R]
    train: np.ndarray | None  # [R] bool; None without the column `part`


def load(
    path: str | os.PathLike,
    dataset: Dataset,
    *,
    clients: int,
    pooled: bool = True,
    train_share: float = 0.75,
    seed: int = 1,
) -> Partition:
    """Reads the partition of a data set from a file.

    Args:
      path: of the CSV file.
      dataset: no client gets its public examples.
      pooled: False takes the official test part in place of test examples in the file.
      train_share, seed: for the division of a client's examples if the file has no
        column `part`; it does not depend on the order of the lines.
    """
    official = None if pooled else partition.official_test(dataset)
    listed = read(path)
    _check_clients(path, listed, clients)
    _check_rows(path, listed, dataset)
    if not pooled:
        _check_official(path, listed, dataset)
    if listed.train is None:
        rng = np.random.default_rng(seed)
        client_rows = [np.sort(rows) for rows in _rows_of(listed, clients, slice(None))]
        train, test = partition.split_each(
            client_rows, train_share if pooled else 1, rng
        )
    else:
        masks = listed.train, ~listed.train
        train, test = (_rows_of(listed, clients, mask) for mask in masks)
    test = test if official is None else [official] * clients
    _check_everyone_has_both(path, train, test, dataset)
    return public_examples.remove_public(dataset, partition.make_partition(train, test))


def _rows_of(listed, clients, lines):
    """Returns the rows of each client in some of the lines, in their order."""
    index_R = listed.index[lines]
    return [index_R[rows] for rows in rows_by_class(listed.client[lines], clients)]


def read(path: str | os.PathLike) -> Listed:
    """Reads the lines of a file, without reference to a data set."""
    atomic.check_regular(f"file:{path}", os.path.expanduser(path))
    try:
        with open(os.path.expanduser(path), newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            names = [name.strip() for name in next(reader, [])]
            column = _column_positions(path, names)
            lines = [
                (reader.line_num, *_parse(path, reader.line_num, row, column))
                for row in reader
                if row
            ]
    except (OSError, UnicodeError, csv.Error) as error:
        raise UserError(
            f"file:{path}: cannot be read ({error}). Give a CSV file with the columns "
            "client, index and, if wanted, part."
        ) from error
    number, client, index, train = np.array(lines, np.int64).reshape(-1, 4).T
    return Listed(number, client, index, train > 0 if "part" in column else None)


def _column_positions(path, names):
    """Returns the position of each known column."""
    missing = [name for name in NEEDED if name not in names]
    if missing:
        raise UserError(
            f"file:{path}: no column {' and no column '.join(missing)}. Its first line "
            f"has {', '.join(names) or 'nothing'}; it should name the columns client "
            "and index (and part, if wanted)."
        )
    for name in (*NEEDED, "part"):
        if names.count(name) > 1:
            raise UserError(
                f"file:{path}: its first line has the column {name} "
                f"{names.count(name)} times. Name each column once."
            )
    return {name: names.index(name) for name in (*NEEDED, "part") if name in names}


def _parse(path, number, row, column):
    """Parses client, index and training flag of a line."""
    if len(row) <= max(column.values()):
        raise UserError(
            f"file:{path}, line {number}: has {len(row)} values, too few for the "
            f"columns {', '.join(column)}. Complete or remove it."
        )
    value = {name: row[i].strip() for name, i in column.items()}
    for name in NEEDED:
        if not re.fullmatch("0|[1-9][0-9]{0,14}", value[name]):
            raise UserError(
                f"file:{path}, line {number}: {name} is {value[name]!r}. Give a whole "
                "number from 0 on, without a zero or a fraction (pandas: astype(int))."
            )
    if (part := value.get("part", "train")) not in PART:
        raise UserError(
            f"file:{path}, line {number}: part is {part!r}. Give {', '.join(PART)}, "
            "or leave the whole column out."
        )
    return int(value["client"]), int(value["index"]), PART[part]


def _first(bad_R, listed):
    """Returns the position and the line number of the first bad line, or None."""
    if not bad_R.any():
        return None
    position = int(bad_R.argmax())
    return position, listed.number[position]


def _check_clients(path, listed, clients):
    """Raises UserError unless the clients of the file are 0 to `clients` - 1."""
    ids = np.unique(listed.client)
    gaps = not len(ids) or ids[-1] >= len(ids)
    if gaps or len(ids) != clients:
        way = _renumber(ids) if gaps else f"Set data.clients to {len(ids)}."
        raise UserError(
            f"file:{path}{_wrong_client(listed, ids, clients)} data.clients is "
            f"{clients}. {way}",
            advice=() if gaps else [{"data.clients": len(ids)}],
        )


def _wrong_client(listed, ids, clients):
    """Returns the first id outside 0 to `clients` - 1, or that is missing."""
    if bad := _first(listed.client >= clients, listed):
        found = listed.client[bad[0]]
        return f", line {bad[1]}: client is {found} (of {len(ids)} clients), but"
    lacking = np.setdiff1d(np.arange(clients), ids)
    more = f" (and {len(lacking) - 1} more have none)" * (len(lacking) > 1)
    return f": client {lacking[0]} has no line{more}, but"


def _renumber(ids):
    """Returns how clients are to be numbered."""
    if len(ids) and np.array_equal(ids, np.arange(1, len(ids) + 1)):
        return "Clients go from 0, here from 1: subtract 1 from the column client."
    return "Number clients from 0 without gaps, and set data.clients to their number."


def _check_rows(path, listed, dataset):
    size = len(dataset.y) - dataset.foreign
    if bad := _first(listed.index >= size, listed):
        raise UserError(
            f"file:{path}, line {bad[1]}: index is {listed.index[bad[0]]}, but data "
            f"set {dataset.name!r} has {size} examples, numbered from 0 to {size - 1}. "
            "Correct it, or name the data set that the file was made for."
        )
    _, first_I, inverse_R = np.unique(
        listed.index, return_index=True, return_inverse=True
    )
    first_R = first_I[inverse_R]  # first line with the same index
    if bad := _first(first_R != np.arange(len(first_R)), listed):
        raise UserError(
            f"file:{path}, line {bad[1]}: example {listed.index[bad[0]]} is used "
            f"twice, first in line {listed.number[first_R[bad[0]]]}. An example is of "
            "one client at most, for training or for testing: remove one of the lines."
        )


def _check_official(path, listed, dataset):
    """Raises UserError for lines with test examples, which data.pool=False adds."""
    bad_R, why = listed.index >= dataset.train_size, "is in the official test part"
    if not bad_R.any() and listed.train is not None:
        bad_R, why = ~listed.train, "has the part test"
    if bad := _first(bad_R, listed):
        sides = [np.unique(listed.client)]
        if listed.train is not None:
            sides = [np.unique(listed.client[m]) for m in (listed.train, ~listed.train)]
        pooled = np.array_equal(sides[0], sides[-1])  # every client has both
        raise UserError(
            f"file:{path}, line {bad[1]}: example {listed.index[bad[0]]} {why}, but "
            f"data.pool=False tests every client on the whole official test part (from "
            f"example {dataset.train_size} on). Remove such lines"
            f"{', or set data.pool=True' * pooled}.",
            advice=[{"data.pool": True}] * pooled,
        )


def _check_everyone_has_both(path, train, test, dataset):
    """Raises UserError for a client without training or without test examples."""
    official = len(partition.official_rows(dataset)) > 0
    way = "; or, to test all on the official test part, set data.pool=False"
    for k, (train_rows, test_rows) in enumerate(zip(train, test, strict=True)):
        if not len(train_rows) or not len(test_rows):
            raise UserError(
                f"file:{path}: client {k} has {len(train_rows)} training and "
                f"{len(test_rows)} test examples. Give every client one of each at "
                f"least{way * official}.",
                advice=[{"data.pool": False}] * official,
            )

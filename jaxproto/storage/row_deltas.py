"""Rows of clients in a checkpoint: those that changed since the one before.

A checkpoint holds, in `rows/`, folders of rows in the order in which they count, each
named by its round and its number of rows. Those of earlier checkpoints are linked, not
copied; where there are twice as many rows as clients, all are written anew. So each
checkpoint is whole by itself, and older ones can go. A linked file has one content: if
it is damaged on the disk, so is every checkpoint that has it.
"""

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.storage import orbax_arrays as arrays

FOLDER = "rows"
MAX_PARTS = 2  # rows per client in a checkpoint


class RowDelta(NamedTuple):
    """What a checkpoint asks of whoever holds the rows."""

    since: int | None  # round of the last checkpoint; None is none
    live: int  # clients that have a row
    changed: int  # of them, since then
    arrays: Callable[[bool], Mapping[str, np.ndarray]]  # of all, or of what changed


def delta_folders(folder: Path) -> list[Path]:
    """The folders of rows in a checkpoint, in the order in which they count."""
    there = (folder / FOLDER).glob("*-*")
    return sorted(there, key=lambda p: int(p.name.partition("-")[0]))


def write(folder: Path, before: Path | None, round: int, changes: RowDelta) -> int:
    """Writes what changed beside links to the rest; returns the bytes written.

    Args:
      folder: of the new checkpoint.
      before: the checkpoint that this one goes on from, if there is one.
      changes: since then.
    """
    old = delta_folders(before) if before is not None else []
    rows = sum(int(p.name.partition("-")[2]) for p in old) + changes.changed
    whole = not old or rows > MAX_PARTS * changes.live
    (folder / FOLDER).mkdir()
    for part in [] if whole else old:
        shutil.copytree(part, folder / FOLDER / part.name, copy_function=_link)
    made = changes.arrays(whole)
    if made:
        count = changes.live if whole else changes.changed
        arrays.write(folder / FOLDER / f"{round}-{count}", made)
    return sum(a.nbytes for a in made.values())


def read(folder: Path) -> Iterator[dict[str, np.ndarray]]:
    """The rows of a checkpoint, earlier ones first."""
    for part in delta_folders(folder):
        yield arrays.read_all(part)


def _link(source: str, target: str):
    """A name for the same file; a copy where the system has no such thing."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

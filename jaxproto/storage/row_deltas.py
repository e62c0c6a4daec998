"""Incremental client rows of checkpoints: those changed since the last checkpoint.

The folder `rows/` of a checkpoint holds folders of rows, each named by its round and
its number of rows; a later folder overrides an earlier one. Folders of earlier
checkpoints are linked, not copied; if there are twice as many rows as clients, all are
written anew. So each checkpoint is complete, and older ones can be removed. A damaged
linked file damages every checkpoint that has it.
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
    """Client rows that a checkpoint saves."""

    since: int | None  # round of the last checkpoint, if any
    live: int  # clients that have a row
    changed: int  # of these clients, changed since the last checkpoint
    arrays: Callable[[bool], Mapping[str, np.ndarray]]  # whether of all -> rows


def delta_folders(folder: Path) -> list[Path]:
    """Returns the folders of rows in a checkpoint, earliest first."""
    folders = (folder / FOLDER).glob("*-*")
    return sorted(folders, key=lambda p: int(p.name.partition("-")[0]))


def write(folder: Path, before: Path | None, round: int, changes: RowDelta) -> int:
    """Writes the changed rows and links the others; returns the bytes written.

    Args:
      folder: of the new checkpoint.
      before: folder of the last checkpoint, if any.
      round: of the new checkpoint.
      changes: since the last checkpoint.
    """
    old = delta_folders(before) if before is not None else []
    rows = sum(int(p.name.partition("-")[2]) for p in old) + changes.changed
    whole = not old or rows > MAX_PARTS * changes.live
    (folder / FOLDER).mkdir()
    for part in [] if whole else old:
        shutil.copytree(part, folder / FOLDER / part.name, copy_function=_link)
    rows_by_name = changes.arrays(whole)
    if rows_by_name:
        count = changes.live if whole else changes.changed
        arrays.write(folder / FOLDER / f"{round}-{count}", rows_by_name)
    return sum(a.nbytes for a in rows_by_name.values())


def read(folder: Path) -> Iterator[dict[str, np.ndarray]]:
    """Yields the rows of a checkpoint, earliest first."""
    for part in delta_folders(folder):
        yield arrays.read_all(part)


def _link(source: str, target: str):
    """Links a file, or copies it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

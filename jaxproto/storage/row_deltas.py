"""Rows of clients in a checkpoint: those that changed since an earlier checkpoint.

The folder `rows/` has folders of rows, each named by its round and its number of rows.
Those of the last checkpoint but one are hard links. If a checkpoint would have more
than twice as many rows as clients, all rows are written again. Each checkpoint is
complete, so that older ones can be deleted.

Two successive checkpoints share no file: damage to a linked file damages every
checkpoint that has it, but not the checkpoint before.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.storage import manifest, orbax_arrays

FOLDER = "rows"
MAX_ROWS_PER_CLIENT = 2  # in a checkpoint, on average


class RowDelta(NamedTuple):
    """Rows that a checkpoint has to store."""

    since: int  # round of the last checkpoint but one; -1: none
    live: int  # number of clients that have a row
    changed: int  # number of rows that have changed since then
    arrays: Callable[[bool], Mapping[str, np.ndarray]]  # True: all rows; else changed


def delta_folders(folder: Path) -> list[Path]:
    """Returns the folders of rows that a checkpoint's manifest lists, oldest first.

    Raises:
      Unusable: the manifest is damaged.
    """
    files = manifest.contents(folder)["files"]
    matches = (re.match(rf"{FOLDER}/(\d+-\d+)/", name) for name in files)
    names = {match[1] for match in matches if match}
    by_round = sorted(names, key=lambda name: int(name.partition("-")[0]))
    return [folder / FOLDER / name for name in by_round]


def write(changes: RowDelta, round: int, folder: Path) -> dict[str, int]:
    """Writes the changed rows into the folder of the new checkpoint, of `round`.

    Returns the checksums of the other rows, which are linked.
    """
    previous = folder.with_name(str(changes.since))
    old = delta_folders(previous) if manifest.is_complete(previous) else []
    num_rows = sum(int(p.name.partition("-")[2]) for p in old) + changes.changed
    write_all = not old or num_rows > MAX_ROWS_PER_CLIENT * changes.live
    (folder / FOLDER).mkdir()
    for delta in [] if write_all else old:
        shutil.copytree(delta, folder / FOLDER / delta.name, copy_function=_link)
    arrays = changes.arrays(write_all)
    if arrays:
        count = changes.live if write_all else changes.changed
        orbax_arrays.write(folder / FOLDER / f"{round}-{count}", arrays)
    return manifest.linked_checksums(folder, previous) if old else {}


def read(folder: Path) -> Iterator[dict[str, np.ndarray]]:
    """Reads the rows of a checkpoint, oldest first."""
    folder = folder.absolute()  # orbax reads no relative path
    yield from map(orbax_arrays.read_all, delta_folders(folder))


def _link(source: str, target: str):
    """Makes a hard link, or a copy where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)

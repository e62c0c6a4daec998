"""Clients in a checkpoint of several processes: each writes the rows that it has.

A checkpoint holds them in `clients/`, a file for each process, with the places of the
rows beside them. (Of several processes, orbax lets the first alone write arrays of the
host.) Read, they are the leaves of a checkpoint of one process, so that a run may go on
with another number of processes.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
import safetensors.numpy

from jaxproto.io import atomic

FOLDER = "clients"
PLACES = "places[{}]"  # of the rows of a cohort, by its number


def write(folder: Path, process: int, rows: Mapping[str, np.ndarray]):
    """Writes the rows of one process.

    Args:
      folder: of the checkpoint, with `FOLDER` in it.
      rows: by path of the leaf, such as ".clients[0].params", and their PLACES.

    Raises:
      Unwritable: the system refuses.
    """
    content = safetensors.numpy.save(dict(rows))
    atomic.write(folder / FOLDER / f"{process}.safetensors", content)


def has_process_shards(folder: Path) -> bool:
    """Whether a checkpoint has clients of several processes."""
    return (folder / FOLDER).is_dir()


def read(folder: Path, entries: Sequence[Mapping]) -> dict[str, np.ndarray]:
    """Whole leaves, by path, of those entries of a manifest that are clients'."""
    mine = {e["path"]: e for e in entries if cohort_of_path(e["path"]) is not None}
    made = {
        path: np.zeros(e["shape"], jax.numpy.dtype(e["dtype"]))
        for path, e in mine.items()
    }
    for part in sorted((folder / FOLDER).iterdir()):
        rows = safetensors.numpy.load(part.read_bytes())
        for path, whole in made.items():
            if path in rows:
                whole[rows[PLACES.format(cohort_of_path(path))]] = rows[path]
    return made


def cohort_of_path(path: str) -> int | None:
    """The number of the cohort whose leaf a path is."""
    found = re.match(r"\.clients\[(\d+)\]", path)
    return int(found[1]) if found else None

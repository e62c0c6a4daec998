"""Client rows in a checkpoint of several processes: each writes those that it has.

The folder `clients/` of a checkpoint has a file per process, with the rows and their
places. (Orbax lets only the first of several processes write arrays of the host.)
`read` returns the leaves as one process would have saved them, so that a run can resume
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
      folder: of the checkpoint; has a folder `FOLDER`.
      process: number of the process.
      rows: arrays by path of the leaf, such as ".clients[0].params", and PLACES.

    Raises:
      Unwritable: the disk is full or not writable.
    """
    content = safetensors.numpy.save(dict(rows))
    atomic.write(folder / FOLDER / f"{process}.safetensors", content)


def has_process_shards(folder: Path) -> bool:
    """Returns whether a checkpoint has clients of several processes."""
    return (folder / FOLDER).is_dir()


def read(folder: Path, entries: Sequence[Mapping]) -> dict[str, np.ndarray]:
    """Reads the complete leaves of clients, by path."""
    leaves = {
        e["path"]: np.zeros(e["shape"], jax.numpy.dtype(e["dtype"]))
        for e in entries
        if cohort_of_path(e["path"]) is not None
    }
    for part in sorted((folder / FOLDER).iterdir()):
        rows = safetensors.numpy.load(part.read_bytes())
        for path, leaf in leaves.items():
            if path in rows:
                leaf[rows[PLACES.format(cohort_of_path(path))]] = rows[path]
    return leaves


def cohort_of_path(path: str) -> int | None:
    """Returns the number of the cohort that a leaf belongs to, if any."""
    match = re.match(r"\.clients\[(\d+)\]", path)
    return int(match[1]) if match else None

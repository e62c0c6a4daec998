"""Clients in a checkpoint of several processes: each process writes its rows.

The folder `clients/` has a file for each process, with its rows and their indices.
(Orbax lets only the first process write arrays of the host.) `read` returns the leaves
as one process would have saved them, so that a run may resume with another number of
processes.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import numpy as np
import safetensors.numpy

from jaxproto.io import atomic

FOLDER = "clients"
PLACES = "places[{}]"  # name of the indices of a cohort's rows


def write(folder: Path, process: int, rows: Mapping[str, np.ndarray]):
    """Writes the rows of one process.

    Args:
      rows: path of a leaf, such as ".clients[0].params", -> its rows; and `PLACES` ->
        the indices of a cohort's rows.

    Raises:
      Unwritable: writing failed.
    """
    with atomic.write_errors(folder, 0):
        (folder / FOLDER).mkdir(exist_ok=True)
    content = safetensors.numpy.save(dict(rows))
    atomic.write(folder / FOLDER / f"{process}.safetensors", content)


def read(folder: Path, entries: Sequence[Mapping]) -> dict[str, np.ndarray]:
    """Reads the leaves of clients, by path; none if one process has written all."""
    if not (folder / FOLDER).is_dir():
        return {}
    leaves = {
        e["path"]: np.zeros(e["shape"], jax.numpy.dtype(e["dtype"]))
        for e in entries
        if cohort_of_path(e["path"]) is not None
    }
    for file in sorted((folder / FOLDER).iterdir()):
        rows = safetensors.numpy.load(file.read_bytes())
        for path, leaf in leaves.items():
            if path in rows:
                leaf[rows[PLACES.format(cohort_of_path(path))]] = rows[path]
    return leaves


def cohort_of_path(path: str) -> int | None:
    """Returns the number of the cohort in a leaf's path; None for other leaves."""
    match = re.match(r"\.clients\[(\d+)\]", path)
    return int(match[1]) if match else None

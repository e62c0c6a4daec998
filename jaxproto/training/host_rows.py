"""Client rows of one cohort in host memory or files, with flags of changed rows."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import jax
import numpy as np

from jaxproto.core.types import Client
from jaxproto.io import atomic

Places = list[np.ndarray]  # indices of clients in each cohort
# context of a function shape, dtype -> array of zeros
Space = contextlib.AbstractContextManager[Callable[..., np.ndarray]]


@contextlib.contextmanager
def scratch_files(folder: Path, size: int) -> Iterator[Callable[..., np.ndarray]]:
    """Yields a function shape, dtype -> array of zeros in a file of a new folder.

    Args:
      size: Bytes of all arrays.

    Raises:
      UserError: The disk has not enough free space.
    """
    atomic.remove(folder)
    with atomic.write_errors(folder, size):
        folder.parent.mkdir(parents=True, exist_ok=True)
        atomic.check_free(folder, size)
        folder.mkdir()
    numbers = itertools.count(1)

    def allocate(shape, dtype):
        if 0 in shape:  # no file can be mapped
            return np.zeros(shape, dtype)
        path = folder / f"{next(numbers)}.bin"
        with atomic.in_progress(path):
            atomic.reserve(path, int(np.prod(shape)) * dtype.itemsize)
            array = np.memmap(path, dtype, "r+", shape=tuple(shape))
        with contextlib.suppress(OSError):  # Windows keeps the name
            path.unlink()  # nothing can truncate it; the disk space stays
        return array

    yield allocate
    atomic.remove(folder)


class ClientRows:
    """State of the clients of a cohort, with a row for each.

    Only rows of clients that have taken part at least once are `written`.
    """

    def __init__(self, shapes: Client, ids, counts, allocate: Callable):
        """Reserves a row for every client.

        Args:
          shapes: Shapes of one client.
          ids: Client ids [K].
          counts: Training examples per class [K, C].
          allocate: shape, dtype -> array.
        """
        self.ids, self.counts = np.asarray(ids, np.int32), np.asarray(counts)
        count = len(self.ids)
        self.rows = jax.tree.map(lambda a: allocate((count, *a.shape), a.dtype), shapes)
        self.written = np.zeros(count, bool)
        # rows that changed since the last checkpoint, and since the last but one
        self.dirty = np.zeros((2, count), bool)

    def get(self, place: np.ndarray) -> Client:
        """Returns clients [n, ...]."""
        return jax.tree.map(lambda a: a[place], self.rows)

    def set(self, place: np.ndarray, rows: Client):
        """Stores clients [n, ...] that have changed."""
        put_rows(self.rows, place, rows)
        self.written[place] = self.dirty[:, place] = True

    def arrays(self, complete: bool) -> dict[str, np.ndarray]:
        """Returns rows by leaf, and their places: all, or those in `dirty[1]`."""
        place = np.flatnonzero(self.written if complete else self.dirty[1])
        if not len(place):
            return {}
        return {".at": place, **_named(self.get(place))}

    def load(self, arrays: Mapping[str, np.ndarray]):
        """Stores rows in the format of `arrays`."""
        if (place := arrays.get(".at")) is None:
            return
        for name, a in _named(self.rows).items():
            a[place] = arrays[name]
        self.written[place] = True


def _named(rows: Client) -> dict[str, np.ndarray]:
    """Returns the arrays of clients by their paths, without empty ones."""
    leaves = jax.tree_util.tree_leaves_with_path(rows)
    return {jax.tree_util.keystr(path): a for path, a in leaves if a.size}


def put_rows(rows: Client, place: np.ndarray, new: Client):
    """Copies the first clients of `new` to places of `rows`, both on the host."""
    for a, b in zip(jax.tree.leaves(rows), jax.tree.leaves(new), strict=True):
        a[place] = b[: len(place)]


def pad_rows(a: np.ndarray, num_rows: int, value: int = 0) -> np.ndarray:
    """Pads rows [n, ...] with rows of a value to [num_rows, ...]."""
    padding = np.full((num_rows - len(a), *a.shape[1:]), value, a.dtype)
    return np.concatenate([a, padding])

"""Client rows of one cohort in host memory or files, with flags of changed rows."""

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import jax
import numpy as np

from jaxproto.io import atomic
from jaxproto.types import Client

Leaves = list[np.ndarray]  # one array per leaf, one row per client
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
        leaves = jax.tree_util.tree_leaves_with_path(shapes)
        count = len(self.ids)
        self.rows = [allocate((count, *a.shape), a.dtype) for _, a in leaves]
        self.written = np.zeros(count, bool)
        # rows that changed since the last checkpoint, and since the last but one
        self.dirty = np.zeros((2, count), bool)
        self._names = [jax.tree_util.keystr(path) for path, _ in leaves]
        self._structure = jax.tree.structure(shapes)

    def client(self, rows: Leaves) -> Client:
        """Returns clients [n, ...] made of rows of every leaf."""
        return jax.tree.unflatten(self._structure, rows)

    def get(self, place: np.ndarray) -> Leaves:
        """Returns rows of every leaf."""
        return [a[place] for a in self.rows]

    def set(self, place: np.ndarray, rows: Sequence[np.ndarray]):
        """Stores rows that have changed."""
        for a, new in zip(self.rows, rows, strict=True):
            a[place] = new[: len(place)]
        self.written[place] = self.dirty[:, place] = True

    def arrays(self, complete: bool) -> dict[str, np.ndarray]:
        """Returns rows by leaf, and their places: all, or those in `dirty[1]`."""
        place = np.flatnonzero(self.written if complete else self.dirty[1])
        if not len(place):
            return {}
        named = zip(self._names, self.get(place), strict=True)
        return {".at": place, **{name: a for name, a in named if a.size}}

    def load(self, arrays: Mapping[str, np.ndarray]):
        """Stores rows in the format of `arrays`."""
        if (place := arrays.get(".at")) is None:
            return
        for name, a in zip(self._names, self.rows, strict=True):
            if a.size:
                a[place] = arrays[name]
        self.written[place] = True


def pad_rows(a: np.ndarray, num_rows: int, value: int = 0) -> np.ndarray:
    """Pads rows [n, ...] with rows of a value to [num_rows, ...]."""
    padding = np.full((num_rows - len(a), *a.shape[1:]), value, a.dtype)
    return np.concatenate([a, padding])

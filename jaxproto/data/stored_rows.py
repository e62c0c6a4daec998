"""Where the rows of a data set are stored while a reader joins them."""

import math
from collections.abc import Callable, Iterable

import numpy as np

from jaxproto.data import host_memory

# shape, type and blocks of rows, in order -> array of all rows
StoreRows = Callable[[tuple[int, ...], np.dtype, Iterable[np.ndarray]], np.ndarray]


def store_in_memory(
    shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]
) -> np.ndarray:
    """Joins blocks of rows to an array in memory."""
    check_room(shape, dtype)
    x, end = np.empty(shape, dtype), 0
    for rows in blocks:
        x[end : end + len(rows)] = rows
        end += len(rows)
    return x


def check_room(shape: tuple[int, ...], dtype: np.dtype):
    """Raises UserError if the memory has no room for an array."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    advice = "choose a smaller data.pixels, or fewer examples"
    what = f"{shape[0]} examples of shape {shape[1:]}"
    host_memory.check_memory(what, size, advice)

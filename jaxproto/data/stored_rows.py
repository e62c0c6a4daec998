"""Array of all rows of a data set, which a reader joins block by block."""

import math
from collections.abc import Iterable

import numpy as np

from jaxproto.data import host_memory


def join_blocks(
    shape: tuple[int, ...], dtype: np.dtype, blocks: Iterable[np.ndarray]
) -> np.ndarray:
    """Joins blocks of rows to an array.

    Raises:
      UserError: the memory has no room for the array.
    """
    size = math.prod(shape) * np.dtype(dtype).itemsize
    advice = "choose a smaller data.pixels, or fewer examples"
    what = f"{shape[0]} examples of shape {shape[1:]}"
    host_memory.check_memory(what, size, advice)
    x, end = np.empty(shape, dtype), 0
    for rows in blocks:
        x[end : end + len(rows)] = rows
        end += len(rows)
    return x

"""Sizes, ticks and numbers in cells of pictures of matrices."""

import numpy as np

from jaxproto.plots.fit_text import CELL_TAG

_READABLE = 400  # cells of a matrix that may carry their number
_LARGEST = 16  # inches of a picture, in which 1,000 clients have three pixels each


def figure_size(columns: int, rows: int, numbered: bool = True) -> tuple[float, float]:
    """Returns inches, with room for numbers in cells if there are few."""
    numbered = numbered and columns * rows <= _READABLE
    width, height = (0.38, 0.26) if numbered else (0.07, 0.07)
    wide, high = max(4.2, 1.6 + width * columns), max(3.2, 1 + height * rows)
    return min(wide, _LARGEST), min(high, _LARGEST)


def ticks(axes, value, names=(None, None)):
    """Sets a tick for every column and row where there is room, with their names."""
    from matplotlib.ticker import MaxNLocator

    sizes = value.shape[1], value.shape[0]
    for axis, num, named in zip((axes.xaxis, axes.yaxis), sizes, names, strict=True):
        if named is not None and list(named) != list(range(num)):
            step = -(-num // 25)
            axis.set_ticks(range(0, num, step), [str(n) for n in named][::step])
        elif num <= 25:
            axis.set_ticks(range(num), [str(n) for n in range(num)])
        else:
            axis.set_major_locator(MaxNLocator(10, integer=True))


def cells(axes, value, shown, light, form: str):
    """Writes the number of each cell where there is room.

    Args:
      shown: Mask of the cells that have a number.
      light: Mask of the dark cells, whose numbers are white.
    """
    if value.size > _READABLE:
        return
    for i, j in zip(*np.nonzero(shown), strict=True):
        style = {"color": "white" if light[i, j] else "black", "fontsize": 6.5}
        place = {"ha": "center", "va": "center", "label": CELL_TAG}
        axes.text(j, i, form.format(value[i, j]), **style, **place)

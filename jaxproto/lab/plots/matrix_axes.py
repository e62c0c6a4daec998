"""Sizes, ticks and numbers in cells of pictures of matrices."""

import numpy as np

from jaxproto.lab.plots.fit_text import CELL_TAG

_READABLE = 400  # cells of a matrix that may carry their number
_LARGEST = 16  # inches of a picture, which give 1,000 clients three pixels each


def figure_size(columns: int, rows: int, numbered: bool = True) -> tuple[float, float]:
    """Returns inches, with room for numbers if the matrix has few cells.

    Args:
      numbered: Whether cells carry numbers if they are few.
    """
    numbered = numbered and columns * rows <= _READABLE
    cell = (0.38, 0.26) if numbered else (0.07, 0.07)
    width, height = max(4.2, 1.6 + cell[0] * columns), max(3.2, 1 + cell[1] * rows)
    return min(width, _LARGEST), min(height, _LARGEST)


def ticks(axes, value, names):
    """Sets ticks at columns and rows, fewer where there is no room for all.

    Args:
      names: Names of the columns and of the rows; None is 0, 1, ...
    """
    from matplotlib.ticker import MaxNLocator

    sizes = value.shape[1], value.shape[0]
    for axis, num, own in zip((axes.xaxis, axes.yaxis), sizes, names, strict=True):
        if own is not None and list(own) != list(range(num)):
            step = -(-num // 25)
            axis.set_ticks(range(0, num, step), [str(n) for n in own][::step])
        elif num <= 25:
            axis.set_ticks(range(num), [str(n) for n in range(num)])
        else:
            axis.set_major_locator(MaxNLocator(10, integer=True))


def cells(axes, value, shown, light, form: str):
    """Writes the number of each cell if the matrix has few cells.

    Args:
      shown: Mask of the cells that have a number.
      light: Mask of the dark cells, whose numbers are white.
    """
    if value.size > _READABLE:
        return
    for i, j in zip(*np.nonzero(shown), strict=True):
        style = {"color": "white" if light[i, j] else "black", "fontsize": 6.5}
        style |= {"ha": "center", "va": "center", "label": CELL_TAG}
        axes.text(j, i, form.format(value[i, j]), **style)

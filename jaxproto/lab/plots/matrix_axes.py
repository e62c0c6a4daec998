"""Sizes, ticks and numbers in cells of pictures of matrices."""

import numpy as np

from jaxproto.lab.plots import layout

_READABLE = 400  # cells of a matrix that may carry their number
_LETTER, _LINE = 0.6, 1.3  # of a digit with its gap, in sizes of its font
_SMALLEST = 5.0  # points of a readable number
_NAMES = 25  # of an axis at most
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
    """Names columns and rows, only some where there is no room for all.

    Args:
      names: Names of the columns and of the rows; None is 0, 1, ...
    """
    sizes = value.shape[1], value.shape[0]
    for axis, num, own in zip((axes.xaxis, axes.yaxis), sizes, names, strict=True):
        name_ticks(axis, range(num) if own is None else own)


def name_ticks(axis, names):
    """Names the positions 0, 1, ... of an axis, only some where not all have room."""
    from matplotlib.ticker import MaxNLocator

    num, texts, across = len(names), [str(n) for n in names], axis.axis_name == "x"
    pitch = 7 * (_LETTER * (1 + max(map(len, texts))) if across else _LINE)
    most = max(1, int(72 * layout.inches(axis.axes)[0 if across else 1] / pitch))
    if num > _NAMES and list(names) == list(range(num)):
        axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
    else:
        step = -(-num // min(_NAMES, most))
        axis.set_ticks(range(0, num, step), texts[::step])


def cells(axes, value, shown, light, form: str):
    """Writes the number of each cell if the matrix has few cells, and they have room.

    Args:
      shown: Mask of the cells that have a number.
      light: Mask of the dark cells, whose numbers are white.
    """
    if value.size > _READABLE:
        return
    texts = {(i, j): form.format(value[i, j]) for i, j in np.argwhere(shown).tolist()}
    letters = max(map(len, texts.values()), default=1)
    width, height = np.divide(layout.inches(axes), value.shape[::-1]) * 72
    points = min(6.5, width / (_LETTER * (letters + 1)), height / _LINE)
    if points < _SMALLEST:
        return
    for (i, j), text in texts.items():
        style = {"color": "white" if light[i, j] else "black", "fontsize": points}
        axes.text(j, i, text, ha="center", va="center", **style)

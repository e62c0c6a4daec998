"""A table of numbers as a picture: two axes of a sweep."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots.style import new_figure

_CELL, _MARGIN = (0.75, 0.45), (2.6, 1.5)  # inches: width, height
_DARK = 0.6  # share of the scale from which numbers are white
_ABREAST = 11  # characters of a name that fits below its column
_MISSING = "\N{EN DASH}"


def grid_heatmap(
    path: str | Path,
    values_RC: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    labels: tuple[str, str],
    title: str,
):
    """A number in each cell, coloured by its size; a dash for nan.

    Args:
      path: of the file.
      values_RC: the numbers.
      rows: names of the rows.
      columns: names of the columns.
      labels: what the columns and what the rows are.
      title: what the numbers are.
    """
    values_RC = np.ma.masked_invalid(np.asarray(values_RC, float))
    wide = _MARGIN[0] + _CELL[0] * len(columns) + 0.06 * max(map(len, rows))
    longest = max(map(len, columns))
    upright = longest > _ABREAST
    high = _MARGIN[1] + _CELL[1] * len(rows) + 0.06 * upright * longest
    with new_figure(path, (wide, high)) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(values_RC, cmap="Blues", aspect="auto")
        figure.colorbar(image, pad=0.02)
        axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
        turned = {"rotation": 90 * upright}
        axes.set_xticks(range(len(columns)), columns, fontsize=8, **turned)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        shade = image.norm(values_RC)
        for r, c in np.ndindex(values_RC.shape):
            missing = np.ma.getmaskarray(values_RC)[r, c]
            color = "white" if not missing and shade[r, c] > _DARK else "black"
            text = _MISSING if missing else f"{values_RC[r, c]:.2f}"
            style = {"ha": "center", "va": "center", "fontsize": 8}
            axes.text(c, r, text, color=color, **style)

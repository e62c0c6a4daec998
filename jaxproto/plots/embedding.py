"""Features and prototypes in a plane that keeps neighbours together."""

import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.plots.canvas import blank
from jaxproto.plots.planes import class_colours, class_legend


class Embedded(NamedTuple):
    """Points of one run: coordinates and classes."""

    title: str
    feature_N2: np.ndarray
    y_N: np.ndarray
    local_P2: np.ndarray
    local_y_P: np.ndarray
    global_C2: np.ndarray  # may be empty
    global_y_C: np.ndarray


def embedding(path: str | Path, runs: Sequence[Embedded], num_C: int, note: str):
    """A panel for each run: dots are features, the rest prototypes (R Figure 2).

    Args:
      path: of the PNG file.
      runs: at least one.
      num_C: classes in all.
      note: below: how the points were chosen and placed.
    """
    colours = np.array([*map(_rgba, class_colours(num_C))])
    columns = min(len(runs), 4)
    rows = -(-len(runs) // columns)
    with blank(path, (1.6 + 3.3 * columns, 0.9 + 3.3 * rows)) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(runs) :]:
            axes.set_visible(False)
        for axes, run in zip(grid.flat, runs, strict=False):
            _one(axes, run, colours)
        labels = [y for run in runs for y in (run.y_N, run.local_y_P, run.global_y_C)]
        classes = np.unique(np.concatenate(labels)).astype(int)
        last = grid[0, -1]
        for c in classes:
            last.scatter([], [], color=colours[c], s=20, label=f"class {c}")
        _marks(last)
        class_legend(last, num_C, len(classes))
        figure.supxlabel(textwrap.fill(note, 72 * columns), fontsize=7)


def _rgba(colour):
    from matplotlib.colors import to_rgba

    return to_rgba(colour)


_LOCAL = {"marker": "^", "s": 30, "lw": 0.7, "ec": "black", "zorder": 3}
_GLOBAL = {"marker": "*", "s": 190, "lw": 1.0, "ec": "black", "zorder": 4}


def _one(axes, run, colours):
    dots = {"s": 9, "lw": 0, "alpha": 0.6, "rasterized": True}
    axes.scatter(*run.feature_N2.T, color=colours[run.y_N], **dots)
    axes.scatter(*run.local_P2.T, color=colours[run.local_y_P], **_LOCAL)
    axes.scatter(*run.global_C2.T, color=colours[run.global_y_C], **_GLOBAL)
    axes.set(title=run.title, xticks=[], yticks=[])


def _marks(axes):
    """What the signs mean, in grey."""
    for name, style in (("local prototype", _LOCAL), ("global prototype", _GLOBAL)):
        style = {**style, "s": min(style["s"], 70)}
        axes.scatter([], [], color="0.75", label=name, **style)

"""Features and prototypes in a plane that keeps neighbours together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxproto.plots import layout
from jaxproto.plots.style import new_figure
from jaxproto.plots.two_dimensional import class_colours, class_legend


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
      path: of the file.
      runs: at least one.
      num_C: classes in all.
      note: below: how the points were chosen and placed.
    """
    colours = np.array([*map(_rgba, class_colours(num_C))])
    with new_figure(path, layout.figure_size(len(runs), (2.9, 2.9), 0.4)) as figure:
        drawn = layout.panels(figure, [run.title for run in runs], share=False)
        for axes, run in zip(drawn, runs, strict=True):
            _one(axes, run, colours)
        figure.supxlabel(note, fontsize=6)
        labels = [y for run in runs for y in (run.y_N, run.local_y_P, run.global_y_C)]
        classes = np.unique(np.concatenate(labels)).astype(int).tolist()
        class_legend(figure, list(drawn), num_C, classes, marks=_marks())


def _rgba(colour):
    from matplotlib.colors import to_rgba

    return to_rgba(colour)


_LOCAL = {"marker": "^", "s": 22, "lw": 0.7, "ec": "black", "zorder": 3}
_GLOBAL = {"marker": "*", "s": 110, "lw": 0.8, "ec": "black", "zorder": 4}


def _one(axes, run, colours):
    dots = {"s": 9, "lw": 0, "alpha": 0.6, "rasterized": True}
    axes.scatter(*run.feature_N2.T, color=colours[run.y_N], **dots)
    axes.scatter(*run.local_P2.T, color=colours[run.local_y_P], **_LOCAL)
    axes.scatter(*run.global_C2.T, color=colours[run.global_y_C], **_GLOBAL)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)


def _marks() -> dict:
    """What the signs mean, in grey."""
    from matplotlib.lines import Line2D

    grey: dict[str, Any] = {"ls": "", "color": "0.75", "mec": "black", "mew": 0.7}
    return {
        "local prototype": Line2D([], [], marker="^", ms=5, **grey),
        "global prototype": Line2D([], [], marker="*", ms=8, **grey),
    }

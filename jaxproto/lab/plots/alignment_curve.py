"""Curves of the iterations of an alignment."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxproto.lab.plots import layout
from jaxproto.lab.plots.style import line_style, new_figure


def _levels(shapes) -> dict[str, float]:
    """Returns distances of unit vectors at right angles and in simplices, by label.

    A regular simplex is the widest arrangement of n points. It exists in n - 1 or more
    dimensions.

    Args:
      shapes: (number of prototypes, number of dimensions) of each run.
    """
    sizes = sorted({n for n, dim in shapes if 1 < n <= dim + 1})
    levels = {n: (2 * n / (n - 1)) ** 0.5 for n in sizes}
    simplices = {f"simplex of {n}: {level:.3f}": level for n, level in levels.items()}
    return {"right angles: 1.414": 2**0.5} | simplices


def alignment_trace(path: str | Path, runs: Mapping[str, Mapping], shapes: Mapping):
    """Draws distances, angles, energy and force over an alignment (N Figure 4).

    Args:
      runs: {name: `kernels.Spacing` of arrays [steps + 1] as a mapping}.
      shapes: {name: (number of prototypes, number of dimensions)}.
    """
    titles = ["distance between prototypes", "angle (degrees)", "energy", "mean force"]
    with new_figure(path, layout.figure_size(4, (1.7, 2.1), 2.2)) as figure:
        grid = figure.subplots(2, 2, sharex=True).ravel()
        for axes, title in zip(grid, titles, strict=True):
            axes.set_title(title)
            axes.spines[["top", "right"]].set_visible(False)
        distance, angle, energy, force = grid
        for index, spacing in enumerate(runs.values()):
            style = line_style(index)
            step = np.arange(len(spacing["energy"]))
            shade = {"color": style["color"], "alpha": 0.18, "lw": 0}
            low, high = spacing["smallest_distance"], spacing["largest_distance"]
            distance.fill_between(step, low, high, **shade)
            distance.plot(step, spacing["mean_distance"], **style)
            angle.plot(step, spacing["mean_angle"], **style)
            angle.plot(step, spacing["smallest_angle"], **style, lw=0.7)
            energy.plot(step, spacing["energy"], **style)
            force.plot(step, spacing["force"], **style)
        for name, level in _levels(shapes.values()).items():
            distance.axhline(level, color="0.4", lw=0.9, ls=(0, (4, 3)))
            below = level < 1.415
            text = {"ha": "right", "va": "top" if below else "bottom", "fontsize": 6}
            text |= {"xycoords": distance.get_yaxis_transform(), "color": "0.4"}
            offset = {"xytext": (0, -2 if below else 2), "textcoords": "offset points"}
            distance.annotate(name, (0.99, level), **text, **offset)
        values = np.concatenate([line.get_ydata() for line in force.lines])
        if 0 < 10 * values.min() <= values.max():
            force.set_yscale("log")
            force.yaxis.set_major_formatter("{x:g}")
        figure.supxlabel(
            "iteration (0: the mean of local prototypes at length 1)\n"
            "distance: mean, least to largest; angle: mean, thin the smallest"
        )
        layout.legend(figure, distance.lines[: len(runs)], list(runs))

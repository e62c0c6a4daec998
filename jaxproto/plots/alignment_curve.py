"""The iterations of an alignment."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxproto.plots import layout
from jaxproto.plots.style import line_style, new_figure


def _levels(shapes) -> dict[str, float]:
    """Distances at which prototypes are far apart: at right angles, and the most.

    So many points as fit into a regular simplex, at most one more than dimensions, can
    all be equally far from each other.
    """
    fit = sorted({n for n, dim in shapes if 1 < n <= dim + 1})
    most = {f"simplex of {n}: {(2 * n / (n - 1)) ** 0.5:.3f}": n for n in fit}
    return {"right angles: 1.414": 2**0.5} | {
        name: (2 * n / (n - 1)) ** 0.5 for name, n in most.items()
    }


def alignment_trace(path: str | Path, runs: Mapping[str, Mapping], shapes: Mapping):
    """What happens over the iterations of an alignment (N Figure 4).

    Args:
      path: of the file.
      runs: {name: `kernels.Spacing` of arrays [steps + 1] as a mapping}.
      shapes: {name: how many prototypes, of how many dimensions}.
    """
    titles = ["distance between prototypes", "angle (degrees)", "energy", "mean force"]
    with new_figure(path, layout.figure_size(4, (1.7, 2.1), 2.2)) as figure:
        grid = figure.subplots(2, 2, sharex=True).ravel()
        for axes, title in zip(grid, titles, strict=True):
            axes.set_title(title)
            axes.spines[["top", "right"]].set_visible(False)
        away, angle, energy, force = grid
        for index, seen in enumerate(runs.values()):
            style = line_style(index)
            at = np.arange(len(seen["energy"]))
            around = {"color": style["color"], "alpha": 0.18, "lw": 0}
            low, high = seen["smallest_distance"], seen["largest_distance"]
            away.fill_between(at, low, high, **around)
            away.plot(at, seen["mean_distance"], **style)
            angle.plot(at, seen["mean_angle"], **style)
            angle.plot(at, seen["smallest_angle"], **style, lw=0.7)
            energy.plot(at, seen["energy"], **style)
            force.plot(at, seen["force"], **style)
        for name, level in _levels(shapes.values()).items():
            line = away.axhline(level, color="0.4", lw=0.9, ls=(0, (4, 3)))
            below = level < 1.415
            text = {"ha": "right", "va": "top" if below else "bottom", "fontsize": 6}
            place = {"xycoords": away.get_yaxis_transform(), "color": line.get_color()}
            aside = {"xytext": (0, -2 if below else 2), "textcoords": "offset points"}
            away.annotate(name, (0.99, level), **text, **place, **aside)
        if _far_apart([line.get_ydata() for line in force.lines]):
            force.set_yscale("log")
            force.yaxis.set_major_formatter("{x:g}")
        figure.supxlabel(
            "iteration (0: the mean of local prototypes at length 1)\n"
            "distance: mean, least to largest; angle: mean, thin the smallest"
        )
        layout.legend(figure, away.lines[: len(runs)], list(runs))


def _far_apart(values) -> bool:
    """Whether the largest is ten times the smallest, which is above 0."""
    low, high = min(map(np.min, values)), max(map(np.max, values))
    return low > 0 and high >= 10 * low

"""The iterations of an alignment."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxproto.plots.canvas import blank, look


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
      path: of the PNG file.
      runs: {name: `kernels.Spacing` of arrays [steps + 1] as a mapping}.
      shapes: {name: how many prototypes, of how many dimensions}.
    """
    titles = ["distance between prototypes", "angle (degrees)", "energy", "mean force"]
    with blank(path, (8.6 + 0.06 * max(map(len, runs)), 5.6)) as figure:
        grid = figure.subplots(2, 2, sharex=True).ravel()
        for axes, title in zip(grid, titles, strict=True):
            axes.set_title(title)
            axes.spines[["top", "right"]].set_visible(False)
        away, angle, energy, force = grid
        for index, seen in enumerate(runs.values()):
            style, at = look(index), np.arange(len(seen["energy"]))
            around = {"color": style["color"], "alpha": 0.18, "lw": 0}
            low, high = seen["smallest_distance"], seen["largest_distance"]
            away.fill_between(at, low, high, **around)
            away.plot(at, seen["mean_distance"], **style)
            angle.plot(at, seen["mean_angle"], **style)
            angle.plot(at, seen["smallest_angle"], **{**style, "ls": ":"})
            energy.plot(at, seen["energy"], **style)
            force.plot(at, seen["force"], **style)
        for name, level in _levels(shapes.values()).items():
            line = away.axhline(level, color="0.4", lw=0.9, ls=(0, (4, 3)))
            below = level < 1.415
            text = {"ha": "right", "va": "top" if below else "bottom", "fontsize": 7}
            place = {"transform": away.get_yaxis_transform(), "color": line.get_color()}
            away.text(0.99, level, name, **text, **place)
        force.set_yscale("log")
        _plain_log(force)
        figure.supxlabel(
            "iteration (0: the mean of local prototypes at length 1)\n"
            "distance: mean, least to largest; angle: mean, dotted the smallest",
            fontsize="medium",
        )
        place = {"loc": "outside right center", "fontsize": 7, "frameon": False}
        figure.legend(away.lines[: len(runs)], list(runs), **place)


def _plain_log(axes):
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())

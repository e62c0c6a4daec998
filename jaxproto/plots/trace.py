"""The iterations of an alignment."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from jaxproto.plots.canvas import blank, look


def _level(sizes):
    """Distances of the regular simplex of that many points."""
    return {n: np.sqrt(2 * n / (n - 1)) for n in sorted(set(sizes)) if n > 1}


def alignment_trace(path: str | Path, runs: Mapping[str, Mapping], sizes: Mapping):
    """What happens over the iterations of an alignment (N Figure 4).

    Args:
      path: of the PNG file.
      runs: {name: `kernels.Spacing` of arrays [steps + 1] as a mapping}.
      sizes: {name: how many prototypes}.
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
        for n, level in _level(sizes.values()).items():
            away.axhline(level, color="0.4", lw=0.9, ls=(0, (4, 3)))
            text = {"ha": "right", "va": "bottom", "fontsize": 7, "color": "0.3"}
            place = {"transform": away.get_yaxis_transform()}
            away.text(0.99, level, f"simplex of {n}: {level:.3f}", **text, **place)
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

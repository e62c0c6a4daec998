"""Prototypes and features of two dimensions, as ProtoNorm's Figure 2 shows them."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.plots.canvas import COLOURS, blank


def prototypes_2d(
    path: str | Path,
    global_CD: np.ndarray,
    local_KCD: np.ndarray,
    local_count_KC: np.ndarray,
    classes: Sequence[int] | None = None,
):
    """Global prototypes (dashed lines) and local ones (points); N Figure 2 (a)-(d).

    Args:
      path: of the PNG file.
      global_CD: as clients are pulled to them.
      local_KCD: of the clients.
      local_count_KC: 0 where a client has none.
      classes: those that are shown; all by default.
    """
    there_KC = np.asarray(local_count_KC) > 0
    chosen = range(len(global_CD)) if classes is None else classes
    with blank(path, (4.6, 4)) as figure:
        axes = figure.add_subplot()
        _plane(axes, "global (lines) and local prototypes (points)")
        colours = class_colours(len(global_CD))
        for c in chosen:
            colour, (x, y) = colours[c], global_CD[c]
            axes.plot([0, x], [0, y], "--", color=colour, lw=1.6, label=f"class {c}")
            points = local_KCD[there_KC[:, c], c]
            axes.scatter(*points.T, color=colour, s=26, lw=0.5, ec="white", zorder=3)
        class_legend(axes, len(global_CD), len(chosen))


class Plane(NamedTuple):
    """A client's test features and its prototypes, of two dimensions."""

    title: str
    feat_MD: np.ndarray
    y_M: np.ndarray
    local_CD: np.ndarray
    local_count_C: np.ndarray


def features_2d(
    path: str | Path,
    feat_MD: np.ndarray,
    y_M: np.ndarray,
    local_CD: np.ndarray,
    local_count_C: np.ndarray,
    title: str,
):
    """A client's test features (points), its prototypes (lines); N Figure 2 (e)-(f)."""
    features_grid(path, [Plane(title, feat_MD, y_M, local_CD, local_count_C)])


def features_grid(
    path: str | Path, planes: Sequence[Plane], classes: Sequence[int] | None = None
):
    """As `features_2d` for several clients, at most five in a row (N Figure 6).

    Args:
      path: of the PNG file.
      planes: one for each client.
      classes: those that are shown; all by default.
    """
    num_C = len(planes[0].local_CD)
    chosen = range(num_C) if classes is None else classes
    columns = min(len(planes), 5)
    rows = -(-len(planes) // columns)
    size = (4.6, 4) if len(planes) == 1 else (1 + 2.5 * columns, 0.4 + 2.5 * rows)
    with blank(path, size) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(planes) :]:
            axes.set_visible(False)
        there = set()
        for axes, plane in zip(grid.flat, planes, strict=False):
            _plane(axes, plane.title, named=len(planes) == 1)
            there |= _features(axes, plane, chosen)
        first = grid.flat[0] if len(planes) == 1 else grid[0, -1]
        for c in sorted(there):
            dot = {"color": class_colours(num_C)[c], "s": 26}
            first.scatter([], [], **dot, label=f"class {c}")
        class_legend(first, num_C, len(there))
        if len(planes) > 1:
            figure.supxlabel("feature 1", fontsize="medium")
            figure.supylabel("feature 2", fontsize="medium")


def _features(axes, plane, chosen):
    """Draws one client; the classes that it has."""
    colours, there = class_colours(len(plane.local_CD)), set()
    for c in chosen:
        points = plane.feat_MD[np.asarray(plane.y_M) == c]
        if plane.local_count_C[c] > 0:
            x, y = plane.local_CD[c]
            axes.plot([0, x], [0, y], color=colours[c], lw=1.8, zorder=3)
        there |= {c} if plane.local_count_C[c] > 0 or len(points) else set()
        axes.scatter(*points.T, color=colours[c], s=9, alpha=0.35, lw=0)
    return there


def _plane(axes, title, named=True):
    axes.set(aspect="equal", adjustable="datalim", title=title)
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.axvline(0, color="0.85", lw=0.8, zorder=0)
    if named:
        axes.set(xlabel="feature 1", ylabel="feature 2")
    axes.spines[["top", "right"]].set_visible(False)


def class_colours(num: int):
    """A colour for each class."""
    if num <= len(COLOURS):
        return COLOURS[:num]
    import matplotlib

    return matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, num))


def class_legend(axes, num: int, shown: int | None = None):
    """A line for each class beside the axes, or a bar of colours for many.

    Args:
      axes: has artists with labels.
      num: classes in all.
      shown: of them; all by default.
    """
    if (num if shown is None else shown) > 20:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap, Normalize

        colours = ListedColormap(class_colours(num))
        rows = ScalarMappable(Normalize(-0.5, num - 0.5), colours)
        axes.figure.colorbar(rows, ax=axes, label="class", pad=0.02)
        return
    place = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
    axes.legend(fontsize=7, frameon=False, **place)

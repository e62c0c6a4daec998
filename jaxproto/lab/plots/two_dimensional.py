"""Prototypes and features of two dimensions, or embedded in two."""

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxproto.lab.plots import layout
from jaxproto.lab.plots.style import COLOURS, new_figure


class Plane(NamedTuple):
    """Points of classes in two dimensions, and a prototype of each class."""

    title: str
    point_PD: np.ndarray
    y_P: np.ndarray  # classes of the points
    proto_CD: np.ndarray
    count_C: np.ndarray  # 0 where there is no prototype


def prototype_plane(
    title: str, global_CD: np.ndarray, local_KCD: np.ndarray, count_KC: np.ndarray
) -> Plane:
    """Returns the plane of global prototypes, with local ones as points.

    Args:
      global_CD: Global prototypes in the form that clients compare with; zeros where
        there is none.
      local_KCD: Local prototypes of each client.
      count_KC: Examples; 0 where a client has no prototype.
    """
    k, c = np.nonzero(np.asarray(count_KC) > 0)
    return Plane(title, local_KCD[k, c], c, global_CD, np.any(global_CD != 0, axis=1))


def prototypes_2d(
    path: str | Path, planes: Sequence[Plane], classes: Sequence[int] | None = None
):
    """Draws global prototypes as dashed lines, local ones as points (N Figure 2).

    Args:
      planes: Prototypes of each panel, from `prototype_plane`.
      classes: Classes that are shown; all by default.
    """
    dots = {"s": 22, "lw": 0.5, "ec": "white", "zorder": 3}
    _draw_planes(path, planes, classes, (2.9, 2.7), {"ls": "--", "lw": 1.6}, dots)


def features_grid(
    path: str | Path, planes: Sequence[Plane], classes: Sequence[int] | None = None
):
    """Draws test features as points, prototypes as lines (N Figures 2 and 6).

    Args:
      planes: Features and prototypes of each panel.
      classes: Classes that are shown; all by default.
    """
    dots = {"s": 9, "alpha": 0.35, "lw": 0}
    _draw_planes(path, planes, classes, (2.3, 2.2), {"lw": 1.8, "zorder": 3}, dots)


def _draw_planes(path, planes, classes, size, line, dots):
    """Draws a panel of `size` for each plane; the legend has all classes drawn."""
    num_C, present = len(planes[0].proto_CD), set()
    chosen, colours = range(num_C) if classes is None else classes, class_colours(num_C)
    with new_figure(path, layout.figure_size(len(planes), size)) as figure:
        drawn = layout.panels(figure, [plane.title for plane in planes], share=False)
        for axes, plane in zip(drawn, planes, strict=True):
            axes.set(aspect="equal", adjustable="datalim")
            axes.axhline(0, color="0.85", lw=0.8, zorder=0)
            axes.axvline(0, color="0.85", lw=0.8, zorder=0)
            for c in chosen:
                points = plane.point_PD[np.asarray(plane.y_P) == c]
                if plane.count_C[c] > 0:
                    x, y = plane.proto_CD[c]
                    axes.plot([0, x], [0, y], color=colours[c], **line)
                axes.scatter(*points.T, color=colours[c], **dots)
                present |= {c} if plane.count_C[c] > 0 or len(points) else set()
        layout.label_outer_axes(drawn, "feature 1", "feature 2")
        class_legend(figure, list(drawn), num_C, [c for c in chosen if c in present])


def class_colours(num: int):
    """Returns a colour for each of `num` classes."""
    if num <= len(COLOURS):
        return COLOURS[:num]
    import matplotlib

    return matplotlib.colormaps["turbo"](np.linspace(0.03, 0.97, num))


def class_legend(
    figure,
    drawn: Sequence,
    num: int,
    shown: Sequence[int],
    names: Sequence[str] = (),
    marks: Mapping = types.MappingProxyType({}),
):
    """Adds a legend of the classes outside the panels, or a colour bar for many.

    Args:
      drawn: Axes of the panels.
      num: Number of all classes.
      shown: Classes that are drawn.
      names: Names of all classes; "class 0" and so on by default.
      marks: Further handles of the legend by their label.
    """
    from matplotlib.lines import Line2D

    colours, handles = class_colours(num), dict(marks)
    dot: dict[str, Any] = {"ls": "", "marker": "o", "ms": 4.5}
    if len(shown) > 20:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap, Normalize

        scale = ScalarMappable(Normalize(-0.5, num - 0.5), ListedColormap(colours))
        figure.colorbar(scale, ax=drawn, label="class", pad=0.02)
    else:
        labels = [names[c] if names else f"class {c}" for c in shown]
        dots = [Line2D([], [], color=colours[c], **dot) for c in shown]
        handles = dict(zip(labels, dots, strict=True)) | handles
    layout.legend(figure, list(handles.values()), list(handles))


class Embedded(NamedTuple):
    """Coordinates and classes of features and prototypes of one run."""

    title: str
    feature_N2: np.ndarray
    y_N: np.ndarray  # classes of the features
    local_P2: np.ndarray  # local prototypes
    local_y_P: np.ndarray
    global_C2: np.ndarray  # global prototypes; may be empty
    global_y_C: np.ndarray


def embedding(path: str | Path, runs: Sequence[Embedded], num_C: int, note: str):
    """Draws features as dots and prototypes as markers, a panel per run (R Figure 2).

    Args:
      runs: Points of each panel, at least one.
      num_C: Number of classes.
      note: Line below the panels, such as the choice of points and the embedding.
    """
    with new_figure(path, layout.figure_size(len(runs), (2.9, 2.9), 0.4)) as figure:
        from matplotlib.colors import to_rgba_array

        colours = to_rgba_array(class_colours(num_C))
        drawn = layout.panels(figure, [run.title for run in runs], share=False)
        for axes, run in zip(drawn, runs, strict=True):
            _draw_embedded(axes, run, colours)
        figure.supxlabel(note, fontsize=6)
        labels = [y for run in runs for y in (run.y_N, run.local_y_P, run.global_y_C)]
        classes = np.unique(np.concatenate(labels)).astype(int).tolist()
        class_legend(figure, list(drawn), num_C, classes, marks=_marks())


_LOCAL = {"marker": "^", "s": 22, "lw": 0.7, "ec": "black", "zorder": 3}
_GLOBAL = {"marker": "*", "s": 110, "lw": 0.8, "ec": "black", "zorder": 4}


def _draw_embedded(axes, run, colours):
    dots = {"s": 9, "lw": 0, "alpha": 0.6, "rasterized": True}
    axes.scatter(*run.feature_N2.T, color=colours[run.y_N], **dots)
    axes.scatter(*run.local_P2.T, color=colours[run.local_y_P], **_LOCAL)
    axes.scatter(*run.global_C2.T, color=colours[run.global_y_C], **_GLOBAL)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(True)


def _marks() -> dict:
    """Returns grey markers of prototypes by their label, for the legend."""
    from matplotlib.lines import Line2D

    grey: dict[str, Any] = {"ls": "", "color": "0.75", "mec": "black", "mew": 0.7}
    return {
        "local prototype": Line2D([], [], marker="^", ms=5, **grey),
        "global prototype": Line2D([], [], marker="*", ms=8, **grey),
    }

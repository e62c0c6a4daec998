"""Prototypes and features of two dimensions, as ProtoNorm's Figure 2 shows them."""

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from jaxproto.plots import layout
from jaxproto.plots.style import COLOURS, new_figure


class PrototypePlane(NamedTuple):
    """Global prototypes and those of clients, of two dimensions."""

    title: str
    global_CD: np.ndarray  # as clients are pulled to them
    local_KCD: np.ndarray
    local_count_KC: np.ndarray  # 0 where a client has none


def prototypes_2d(
    path: str | Path,
    runs: Sequence[PrototypePlane],
    classes: Sequence[int] | None = None,
):
    """Global prototypes (dashed lines) and local ones (points); N Figure 2 (a)-(d).

    Args:
      path: of the file.
      runs: a panel each.
      classes: those that are shown; all by default.
    """
    num_C = len(runs[0].global_CD)
    chosen = range(num_C) if classes is None else classes
    with new_figure(path, layout.figure_size(len(runs), (2.9, 2.7))) as figure:
        drawn = layout.panels(figure, [run.title for run in runs], share=False)
        for axes, run in zip(drawn, runs, strict=True):
            _plane(axes)
            _arrows(axes, run, class_colours(num_C), chosen)
        layout.label_outer_axes(drawn, "feature 1", "feature 2")
        class_legend(figure, list(drawn), num_C, chosen)


def _arrows(axes, run, colours, chosen):
    there_KC = np.asarray(run.local_count_KC) > 0
    for c in chosen:
        x, y = run.global_CD[c]
        axes.plot([0, x], [0, y], "--", color=colours[c], lw=1.6)
        points = run.local_KCD[there_KC[:, c], c]
        dots = {"color": colours[c], "s": 22, "lw": 0.5, "ec": "white", "zorder": 3}
        axes.scatter(*points.T, **dots)


class FeaturePlane(NamedTuple):
    """A client's test features and its prototypes, of two dimensions."""

    title: str
    feat_MD: np.ndarray
    y_M: np.ndarray
    local_CD: np.ndarray
    local_count_C: np.ndarray


def features_grid(
    path: str | Path,
    planes: Sequence[FeaturePlane],
    classes: Sequence[int] | None = None,
):
    """Test features of clients (points), their prototypes (lines); N Figures 2, 6.

    Args:
      path: of the file.
      planes: one for each client.
      classes: those that are shown; all by default.
    """
    num_C = len(planes[0].local_CD)
    chosen = range(num_C) if classes is None else classes
    with new_figure(path, layout.figure_size(len(planes), (2.3, 2.2))) as figure:
        drawn = layout.panels(figure, [one.title for one in planes], share=False)
        there = set()
        for axes, one in zip(drawn, planes, strict=True):
            _plane(axes)
            there |= _features(axes, one, chosen)
        layout.label_outer_axes(drawn, "feature 1", "feature 2")
        class_legend(figure, list(drawn), num_C, sorted(there))


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


def _plane(axes):
    axes.set(aspect="equal", adjustable="datalim")
    axes.axhline(0, color="0.85", lw=0.8, zorder=0)
    axes.axvline(0, color="0.85", lw=0.8, zorder=0)


def class_colours(num: int):
    """A colour for each class."""
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
    """A sign for each class outside of the panels, or a bar of colours for many.

    Args:
      figure: has the panels.
      drawn: these panels.
      num: classes in all.
      shown: those that are drawn.
      names: of all classes; "class 0" and so on by default.
      marks: {what a sign means: the sign}, besides.
    """
    from matplotlib.lines import Line2D

    colours, signs = class_colours(num), dict(marks)
    dot: dict[str, Any] = {"ls": "", "marker": "o", "ms": 4.5}
    if len(shown) > 20:
        from matplotlib.cm import ScalarMappable
        from matplotlib.colors import ListedColormap, Normalize

        scale = ScalarMappable(Normalize(-0.5, num - 0.5), ListedColormap(colours))
        figure.colorbar(scale, ax=drawn, label="class", pad=0.02)
    else:
        told = [names[c] if names else f"class {c}" for c in shown]
        dots = [Line2D([], [], color=colours[c], **dot) for c in shown]
        signs = dict(zip(told, dots, strict=True)) | signs
    layout.legend(figure, list(signs.values()), list(signs))

"""Heatmaps of prototypes: rows are clients or classes, columns are dimensions."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxproto.lab.plots import matrix_axes
from jaxproto.lab.plots.style import COLOURS, new_figure

_ROW = 0.13  # height of a row, inches, of up to 60 rows
_FEW = 64  # dimensions; more are sorted, as their own order has no meaning
_NUMBERED = 12  # dimensions up to which cells carry their values
_AXIS = {  # kind of the rows -> label of the x axis if dimensions are sorted
    "class": "feature dimension, by the class in which it is largest",
    "": "feature dimension, largest mean first",
}


def prototype_heatmap(
    path: str | Path,
    proto_KD: np.ndarray,
    title: str,
    *,
    mask_D: np.ndarray | None = None,
    rows: Sequence | None = None,
    what: str = "client",
    binary: bool = False,
    in_order: bool = False,
):
    """Draws prototypes by dimension (T Figure 2; S Figures 1 and 4 to 9).

    White is 0, such as the value of a dead unit. Rows of zeros have no prototype and
    are left out. More than 64 dimensions are sorted, those that a mask keeps first.
    Colours end at the 99th percentile of non-zero values. With a mask there are two
    panels on one scale: the prototypes before and after masking.

    Args:
      proto_KD: Prototypes [K, D]: local ones of a class, or global ones; zeros where
        there is none.
      mask_D: CPS mask [D] of the class; None without CPS.
      rows: Names of the rows; 0, 1, ... by default.
      what: Kind of the rows, "client" or "class".
      binary: Whether each panel has a second one that shows which values are above 0.
      in_order: Whether dimensions are never sorted.
    """
    proto_KD, num_D = np.asarray(proto_KD), np.shape(proto_KD)[1]
    has_K = np.any(proto_KD != 0, axis=1)
    has_K = has_K if has_K.any() else ~has_K
    names = np.array(list(rows or range(len(proto_KD))), object)[has_K]
    kept_D = np.ones(num_D, bool) if mask_D is None else np.asarray(mask_D) > 0
    proto_KD, xlabel = proto_KD[has_K], "feature dimension"
    if num_D > _FEW and not in_order:
        order_D = dimension_order(proto_KD, kept_D, what)
        xlabel = _AXIS.get(what, _AXIS[""])
        proto_KD, kept_D = proto_KD[:, order_D], kept_D[order_D]
    shown = {"": proto_KD}
    if mask_D is not None:
        with_cps = f"with CPS: {np.count_nonzero(mask_D)} of {num_D} dimensions"
        shown = {"without CPS": proto_KD, with_cps: np.where(kept_D, proto_KD, 0)}
    if binary:
        shown |= {f"{name} above 0".strip(): v > 0 for name, v in shown.items()}
    _draw(path, shown, (xlabel, what), names, title)


def dimension_order(proto_KD: np.ndarray, kept_D: np.ndarray, what: str) -> np.ndarray:
    """Returns the order of the dimensions for `prototype_heatmap`.

    Kept dimensions come first. Within kept and other ones the order is by the row in
    which they are largest, if rows are classes, then by descending mean over the rows.
    """
    group_D = proto_KD.argmax(0) if what == "class" else np.zeros(len(kept_D), int)
    return np.lexsort((-proto_KD.mean(0), group_D, ~kept_D))


def _draw(path, shown, labels, names, title):
    """Draws a panel for each title in `shown`, with the labels of the x and y axes."""
    first = next(iter(shown.values()))
    scale, num_D = _scale(first), first.shape[1]
    height = 1 + len(shown) * max(1.4, 0.5 + _ROW * min(len(first), 60))
    width = float(np.clip(1.7 + 0.012 * num_D, 4.6, 12))
    with new_figure(path, (width, height)) as figure:
        figure.suptitle(title)
        images, panels = [], figure.subplots(len(shown), sharex=True, squeeze=False)
        for axes, (name, value_KD) in zip(panels[:, 0], shown.items(), strict=True):
            images.append(_draw_panel(axes, value_KD, scale, names))
            axes.set_title(name)
            axes.set_ylabel(labels[1])
        panels[-1, 0].set_xlabel(labels[0])
        extend = "both" if scale["vmin"] < 0 else "max"
        figure.colorbar(images[0], ax=panels, pad=0.02, label="value", extend=extend)


def _scale(value) -> dict:
    """Returns a scale that is white at 0 and that outliers do not stretch."""
    sizes = np.abs(value[value != 0])
    limit = float(np.percentile(sizes, 99)) if sizes.size else 1.0
    if np.min(value) >= 0:
        return {"cmap": "Blues", "vmin": 0.0, "vmax": limit}
    return {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}


def _draw_panel(axes, value_KD, scale, names):
    matrix_axes.ticks(axes, value_KD, (None, names))
    style = {"aspect": "auto", "interpolation": "auto"}
    if value_KD.dtype == bool:
        from matplotlib.colors import ListedColormap

        colours = ListedColormap(["white", COLOURS[0]])
        return axes.imshow(value_KD, colours, vmin=0, vmax=1, **style)
    if value_KD.shape[1] <= _NUMBERED:
        light = np.abs(value_KD) > 0.6 * scale["vmax"]
        matrix_axes.cells(axes, value_KD, value_KD != 0, light, "{:.2g}")
    return axes.imshow(value_KD, **style, **scale)

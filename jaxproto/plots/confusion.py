"""Confusion matrices of finished runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots import layout, matrix_axes
from jaxproto.plots.style import new_figure


def confusion_matrices(
    path: str | Path,
    runs: Mapping[str, np.ndarray],
    classes: Sequence[int] | None = None,
    note: str = "",
):
    """Which class is taken for which, a panel for each run, in % of the true class.

    Args:
      path: of the file.
      runs: {title: examples [C, C], true class by predicted class}.
      classes: rows and columns that are shown; all by default.
      note: a line below.
    """
    first = next(iter(runs.values()))
    chosen = list(range(len(first)) if classes is None else classes)
    cells = len(chosen) ** 2
    each = matrix_axes.figure_size(
        len(chosen), len(chosen), cells <= matrix_axes.READABLE
    )
    part = (each[0] * 0.62, each[1] * 0.8)
    with new_figure(path, layout.figure_size(len(runs), part, 0.2)) as figure:
        drawn = layout.panels(figure, list(runs), share=False)
        for axes, count_CC in zip(drawn, runs.values(), strict=True):
            image = _one(axes, np.asarray(count_CC, float), chosen)
        figure.colorbar(image, ax=list(drawn), label="% of the true class", pad=0.02)
        layout.label_outer_axes(drawn, "predicted class", "true class")
        figure.supxlabel(note)


def _one(axes, count_CC, chosen):
    all_C1 = count_CC.sum(1, keepdims=True)
    share_CC = 100 * count_CC / np.where(all_C1 > 0, all_C1, 1)
    shown = share_CC[np.ix_(chosen, chosen)]
    there = np.broadcast_to((all_C1 > 0)[chosen], shown.shape)
    axes.set_facecolor("0.85")  # of a class without examples
    image = axes.imshow(
        np.ma.masked_where(~there, shown), cmap="Blues", vmin=0, vmax=100, aspect="auto"
    )
    axes.spines[:].set_visible(True)
    matrix_axes.ticks(axes, shown, (chosen, chosen))
    matrix_axes.cells(axes, shown, there & (shown >= 0.5), shown > 55, "{:.0f}")
    return image

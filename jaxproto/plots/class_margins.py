"""What separates global prototypes, class by class."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots import layout
from jaxproto.plots.style import line_style, marker_style, new_figure


def margins(path: str | Path, runs: Mapping[str, np.ndarray], classes: Sequence[int]):
    """Draws margins of global prototypes as shares of the largest one (N Figure 5).

    Args:
      path: Path of the file.
      runs: {name: [C] from 0 to 1, nan where a class has no prototype}.
      classes: Classes that are shown, in this order.
    """
    rows = {name: (margin_C,) * 3 for name, margin_C in runs.items()}
    axis = {"ylabel": "margin / largest margin", "ylim": (0, 1.05)}
    _by_class(path, rows, classes, **axis)


def cosine_by_class(
    path: str | Path,
    runs: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    classes: Sequence[int],
):
    """Draws the cosine similarity of global prototypes to the others (S Figure 2).

    Args:
      path: Path of the file.
      runs: {name: mean, least and largest over the other classes, each [C]}.
      classes: Classes that are shown, in this order.
    """
    title = "mean, least and largest over the other classes"
    _by_class(path, runs, classes, ylabel="cosine similarity", title=title)


def _by_class(path, runs, classes, **axis):
    """Draws a line for each run with a band around it."""
    num, chosen = len(classes), list(classes)
    with new_figure(path, (min(3 + 0.14 * max(num, 16), 12), 2.8)) as figure:
        axes = layout.panels(figure, [""])[0]
        for index, rows in enumerate(runs.values()):
            mean, low, high = (np.asarray(row)[chosen] for row in rows)
            style = {**line_style(index), **marker_style(index, num)}
            band = {"color": style["color"], "alpha": 0.18, "lw": 0}
            axes.fill_between(range(num), low, high, **band)
            axes.plot(range(num), mean, **style)
        step = -(-num // 25)
        axes.set_xticks(range(0, num, step), chosen[::step])
        axes.set(xlabel="class", **axis)
        layout.legend(figure, axes.lines, list(runs))

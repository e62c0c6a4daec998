"""What separates global prototypes, class by class."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots import layout
from jaxproto.plots.style import line_style, marker_style, new_figure


def margins(path: str | Path, runs: Mapping[str, np.ndarray], classes: Sequence[int]):
    """Margins of global prototypes by class, as shares of the largest (N Figure 5).

    Args:
      path: of the file.
      runs: {name: [C] from 0 to 1, nan where a class has no prototype}.
      classes: those that are shown, in this order.
    """
    with new_figure(path, _size(classes)) as figure:
        axes = layout.panels(figure, [""])[0]
        for index, (name, margin_C) in enumerate(runs.items()):
            chosen = np.asarray(margin_C)[list(classes)]
            style = {**line_style(index), **marker_style(index, len(classes))}
            axes.plot(range(len(classes)), chosen, label=name, **style)
        _classes_below(axes, classes)
        axes.set(xlabel="class", ylabel="margin / largest margin", ylim=(0, 1.05))
        layout.legend(figure, axes.lines, list(runs))


def cosine_by_class(
    path: str | Path,
    runs: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    classes: Sequence[int],
):
    """Cosine similarity of each global prototype to the others (S Figure 2).

    Args:
      path: of the file.
      runs: {name: mean, least and largest over the other classes, each [C]}.
      classes: those that are shown, in this order.
    """
    with new_figure(path, _size(classes)) as figure:
        axes = layout.panels(figure, [""])[0]
        at = np.arange(len(classes))
        for index, (name, rows) in enumerate(runs.items()):
            mean, low, high = (np.asarray(row)[list(classes)] for row in rows)
            style = {**line_style(index), **marker_style(index, len(classes))}
            axes.fill_between(at, low, high, color=style["color"], alpha=0.18, lw=0)
            axes.plot(at, mean, label=name, **style)
        _classes_below(axes, classes)
        axes.set(xlabel="class", ylabel="cosine similarity")
        axes.set_title("mean, least and largest over the other classes")
        layout.legend(figure, axes.lines, list(runs))


def _size(classes):
    return min(3 + 0.14 * max(len(classes), 16), 12), 2.8


def _classes_below(axes, classes):
    step = -(-len(classes) // 25)
    axes.set_xticks(range(0, len(classes), step), list(classes)[::step])

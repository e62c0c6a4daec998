"""Panels that share their axes, with one legend outside them."""

import textwrap
from collections.abc import Sequence

from jaxproto.lab.plots import style

_LETTER, _HANDLE = 0.052, 0.5  # widths in a legend, inches: a letter, a handle
_TITLE_LETTER = 0.065  # inches
_LINE = 0.16  # height of a line of the legend, inches
_NARROW = 0.24  # share of the figure's width that a legend beside panels may take


def num_columns(count: int) -> int:
    """Returns how many of `count` panels are side by side."""
    limit = 2 if style.in_column() else 4
    rows = -(-count // limit)
    return -(-count // rows)


def figure_size(
    count: int, panel: tuple[float, float] = (2.3, 2.2), more: float = 0.0
) -> tuple[float, float]:
    """Returns the width and height of a picture in inches.

    Args:
      count: Number of panels.
      panel: Width and height of a panel, outside `paper_width`.
      more: Height besides the panels, such as that of a note.
    """
    columns = num_columns(count)
    rows = -(-count // columns)
    width, _ = style.figure_size((0.9 + panel[0] * columns, 1.0))
    height = min(panel[1], max(1.25, 0.8 * width / columns))
    return width, 0.45 + more + height * rows


def inches(axes) -> tuple[float, float]:
    """Returns about the width and height that a panel will have after the layout."""
    return tuple(axes.get_position().size * axes.get_figure().get_size_inches())


def panels(figure, titles: Sequence[str], share: bool = True):
    """Adds a panel for each title, as many side by side as fit; returns their axes.

    Args:
      share: Whether the panels share the scales of their axes.
    """
    count, columns = len(titles), num_columns(len(titles))
    rows = -(-count // columns)
    grid = figure.subplots(rows, columns, squeeze=False, sharex=share, sharey=share)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    for axes in grid.flat[max(count - columns, 0) : count]:
        axes.tick_params(labelbottom=True)  # nothing is below
    for axes, title in zip(grid.flat, titles, strict=False):
        letters = max(8, int(inches(axes)[0] / _TITLE_LETTER))
        axes.set_title(textwrap.fill(title, letters))
        axes.spines[["top", "right"]].set_visible(False)
    return grid.flat[:count]


def label_outer_axes(drawn, xlabel: str, ylabel: str):
    """Names the x axes of the lowest panels and the y axes of the leftmost ones."""
    columns = num_columns(len(drawn))
    for i, axes in enumerate(drawn):
        if i + columns >= len(drawn):
            axes.set_xlabel(xlabel)
        if i % columns == 0:
            axes.set_ylabel(ylabel)


def legend(figure, handles: Sequence, labels: Sequence[str]):
    """Adds the legend outside the panels: beside them if it is narrow, else below.

    A wide legend is above the panels if the figure has a note below.
    """
    if not labels:
        return
    width = figure.get_figwidth()
    column = _HANDLE + _LETTER * max(map(len, labels))
    if not style.in_column() and column < _NARROW * width:
        figure.legend(handles, labels, loc="outside right center")
        return
    letters = max(8, int((width - _HANDLE) / _LETTER))
    texts = [textwrap.fill(label, letters) for label in labels]
    columns = max(1, min(len(labels), int(width / column)))
    lines = -(-len(labels) // columns) + sum(text.count("\n") for text in texts)
    figure.set_figheight(figure.get_figheight() + _LINE * lines)
    place = f"outside {'upper' if figure.get_supxlabel() else 'lower'} center"
    figure.legend(handles, texts, loc=place, ncols=columns, columnspacing=1.2)

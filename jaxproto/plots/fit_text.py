"""Breaks lines and thins ticks of a figure once the size of its panels is known.

Constrained layout makes room for ticks and labels, but not for the width of a title,
the number in a cell, or neighbours among ticks that were given by name. A `Text` of
matplotlib wraps at the edge of the figure alone, and not inside of a word.
"""

import itertools
import textwrap

CELL_TAG = "cell"  # label of a text that is the number of a cell
_SMALLEST = 5.0  # points of such a number
_GAP = 1.0  # points between neighbours
_SHORTEST = 6  # letters of a line


def fit_text(figure):
    """Breaks lines that are too long, thins ticks that touch, drops such numbers."""
    given = {text: text.get_text() for text, *_ in _rooms(figure)}
    for _ in range(2):  # lines more make panels flatter, and their ticks others
        figure.draw_without_rendering()
        for text, room, upright in _rooms(figure):
            text.set_text(given[text])
            _break(text, room, upright)
    for axes in _panels(figure):
        for axis in (axes.xaxis, axes.yaxis):
            _thin(axis)
        _numbers(axes)


def _panels(figure):
    return [axes for axes in figure.axes if axes.get_visible()]


def _rooms(figure):
    """Yields texts, the pixels they may fill, and whether they are upright.

    Titles and names of axes are as long as their panel, alone as the figure.
    """
    edge = figure.bbox
    for axes in _panels(figure):
        box, spec = axes.get_window_extent(), axes.get_subplotspec()
        middle = (box.x0 + box.x1) / 2
        alone = spec is None or spec.get_gridspec().ncols == 1
        wide = 2 * min(middle - edge.x0, edge.x1 - middle) if alone else box.width
        yield axes.title, wide, False
        yield axes.xaxis.label, wide, False
        middle = (box.y0 + box.y1) / 2
        yield axes.yaxis.label, 2 * min(middle - edge.y0, edge.y1 - middle), True
    for text in filter(None, (figure._suptitle, figure._supxlabel)):
        yield text, 0.96 * edge.width, False


def _break(text, room: float, upright: bool):
    """Breaks a text into lines that fit into so many pixels."""
    lines = text.get_text().split("\n")
    most = max(map(len, lines))
    while most > _SHORTEST and _length(text, upright) > room:
        most -= 1
        text.set_text("\n".join(textwrap.fill(line, most) for line in lines))


def _length(text, upright: bool) -> float:
    box = text.get_window_extent()
    return box.height if upright else box.width


def _thin(axis):
    """Leaves out ticks given by name until no two touch; turns words instead."""
    from matplotlib.category import StrCategoryLocator
    from matplotlib.ticker import FixedLocator, MaxNLocator

    there = [t for t in axis.get_ticklabels() if t.get_text() and t.get_visible()]
    across = axis.axis_name == "x"
    step = _step(there, across, _GAP * axis.get_figure().dpi / 72)
    if step == 1:
        return
    locator = axis.get_major_locator()
    if isinstance(locator, StrCategoryLocator) and across:
        axis.axes.tick_params(axis="x", labelrotation=90)
    elif isinstance(locator, FixedLocator):
        texts = [t.get_text() for t in axis.get_ticklabels()]
        axis.set_ticks(axis.get_majorticklocs()[::step], texts[::step])
    elif isinstance(locator, MaxNLocator):
        locator.set_params(nbins=max(1, (len(there) - 1) // step))


def _step(labels, across: bool, gap: float) -> int:
    """Every how many labels leave a gap between neighbours."""
    boxes = [t.get_window_extent() for t in labels]
    spans = sorted((b.x0, b.x1) if across else (b.y0, b.y1) for b in boxes)
    for step in range(1, len(spans) + 1):
        kept = spans[::step]
        if all(b[0] - a[1] >= gap for a, b in itertools.pairwise(kept)):
            return step
    return 1


def _numbers(axes):
    """Numbers in cells smaller if they are too wide; none if they then still are."""
    texts = [t for t in axes.texts if t.get_label() == CELL_TAG]
    if not texts:
        return
    box, (x0, x1), (y0, y1) = axes.get_window_extent(), axes.get_xlim(), axes.get_ylim()
    room = box.width / abs(x1 - x0), box.height / abs(y1 - y0)
    boxes = [t.get_window_extent() for t in texts]
    most = max(b.width for b in boxes), max(b.height for b in boxes)
    share = min(0.92 * r / m for r, m in zip(room, most, strict=True))
    points = texts[0].get_fontsize() * min(1.0, share)
    for text in texts:
        if points < _SMALLEST:
            text.remove()
        else:
            text.set_fontsize(points)

"""What a figure needs to be read once its size is known: lines broken, ticks thinned.

The layout makes room for ticks and labels, and not for the width of a title, the
number in a cell, or neighbours among ticks that were given by name.
"""

import itertools
import textwrap

CELL_TAG = "cell"  # label of a text that is the number of a cell
_SMALLEST = 5.0  # points of such a number
_GAP = 1.0  # points between neighbours


def fit_text(figure):
    """Breaks lines that are too long, thins ticks that touch, drops such numbers."""
    figure.draw_without_rendering()
    axes = [a for a in figure.axes if a.get_visible()]
    for one in axes:
        _break_titles(figure, one)
        for axis in (one.xaxis, one.yaxis):
            _thin(axis)
        _numbers(one)
    edge = figure.bbox
    if figure.get_suptitle():
        _break(figure._suptitle, 0.96 * edge.width)
    if figure.get_supxlabel():
        _break(figure._supxlabel, 0.96 * edge.width)


def _break_titles(figure, axes):
    """Titles and names of axes, each as long as its panel, alone as the figure."""
    box, edge = axes.get_window_extent(), figure.bbox
    spec = axes.get_subplotspec()
    alone = spec is None or spec.get_gridspec().ncols == 1
    middle = (box.x0 + box.x1) / 2
    whole = 2 * min(middle - edge.x0, edge.x1 - middle)
    for text in (axes.title, axes.xaxis.label):
        _break(text, whole if alone else 1.08 * box.width)
    middle = (box.y0 + box.y1) / 2
    _break(axes.yaxis.label, 2 * min(middle - edge.y0, edge.y1 - middle), upright=True)


def _break(text, room: float, upright: bool = False):
    """Breaks a text into lines that fit into so many pixels."""
    said = text.get_text()
    if not said or not text.get_visible():
        return
    box = text.get_window_extent()
    long = box.height if upright else box.width
    if long <= room:
        return
    longest = max(map(len, said.split("\n")))
    most = max(6, int(0.97 * longest * room / long))
    lines = [textwrap.fill(line, most) for line in said.split("\n")]
    text.set_text("\n".join(lines))


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

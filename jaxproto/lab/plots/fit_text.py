"""Texts of a figure fitted to the size of its panels.

matplotlib's constrained layout makes room for ticks and labels. It ignores the width of
titles and of numbers in cells, and overlapping tick labels. A `Text` wraps only at the
edge of the figure, and never inside a word.
"""

import itertools
import textwrap

CELL_TAG = "cell"  # label of a text that is the number of a cell
_SMALLEST = 5.0  # points of the number of a cell
_GAP = 1.0  # points between neighbours
_SHORTEST = 6  # letters of a line, at which breaking ends


def fit_text(figure):
    """Breaks long lines, thins touching ticks, shrinks or removes numbers in cells."""
    original = {text: text.get_text() for text, *_ in _rooms(figure)}
    for _ in range(2):  # more lines make panels flatter, which changes their ticks
        figure.get_layout_engine().execute(figure)
        before = {text: text.get_text() for text in original}
        for text, room, upright in _rooms(figure):
            text.set_text(original[text])
            _break(text, room, upright)
        if all(text.get_text() == before[text] for text in original):
            break
    for axes in _panels(figure):
        for axis in (axes.xaxis, axes.yaxis):
            _thin(axis)
        _fit_cell_numbers(axes)


def _panels(figure):
    return [axes for axes in figure.axes if axes.get_visible()]


def _rooms(figure):
    """Yields each text, its room in pixels, and whether it is upright.

    The room is the width of the panel, or of the figure if that has one column. The
    room of an upright text is the height of the figure. Text is centred on its panel.
    """
    edge = figure.bbox
    for axes in _panels(figure):
        box, spec = axes.get_window_extent(), axes.get_subplotspec()
        middle = (box.x0 + box.x1) / 2
        one_column = spec is None or spec.get_gridspec().ncols == 1
        width = 2 * min(middle - edge.x0, edge.x1 - middle) if one_column else box.width
        yield axes.title, width, False
        yield axes.xaxis.label, width, False
        middle = (box.y0 + box.y1) / 2
        yield axes.yaxis.label, 2 * min(middle - edge.y0, edge.y1 - middle), True
    for text in filter(None, (figure._suptitle, figure._supxlabel)):
        yield text, 0.96 * edge.width, False


def _break(text, room: float, upright: bool):
    """Breaks a text into lines that fit into `room` pixels."""
    lines = text.get_text().split("\n")
    letters, length = max(map(len, lines)), "height" if upright else "width"
    while letters > _SHORTEST and getattr(text.get_window_extent(), length) > room:
        letters -= 1
        text.set_text("\n".join(textwrap.fill(line, letters) for line in lines))


def _thin(axis):
    """Turns tick labels that are names, or leaves out ticks, so that no two touch."""
    from matplotlib.category import StrCategoryLocator
    from matplotlib.ticker import FixedLocator, MaxNLocator

    labels = [t for t in axis.get_ticklabels() if t.get_text() and t.get_visible()]
    across = axis.axis_name == "x"
    step = _step(labels, across, _GAP * axis.get_figure().dpi / 72)
    if step == 1:
        return
    locator = axis.get_major_locator()
    if isinstance(locator, StrCategoryLocator) and across:
        axis.axes.tick_params(axis="x", labelrotation=90)
    elif isinstance(locator, FixedLocator):
        texts = [t.get_text() for t in axis.get_ticklabels()]
        axis.set_ticks(axis.get_majorticklocs()[::step], texts[::step])
    elif isinstance(locator, MaxNLocator):
        locator.set_params(nbins=max(1, (len(labels) - 1) // step))


def _step(labels, across: bool, gap: float) -> int:
    """Returns the smallest step that leaves `gap` pixels or more between labels."""
    boxes = [t.get_window_extent() for t in labels]
    spans = sorted((b.x0, b.x1) if across else (b.y0, b.y1) for b in boxes)
    for step in range(1, len(spans) + 1):
        if all(b[0] - a[1] >= gap for a, b in itertools.pairwise(spans[::step])):
            return step
    return 1


def _fit_cell_numbers(axes):
    """Shrinks the numbers in cells until they fit, or removes them."""
    texts = [t for t in axes.texts if t.get_label() == CELL_TAG]
    if not texts:
        return
    box, (x0, x1), (y0, y1) = axes.get_window_extent(), axes.get_xlim(), axes.get_ylim()
    room = box.width / abs(x1 - x0), box.height / abs(y1 - y0)
    boxes = [t.get_window_extent() for t in texts]
    largest = max(b.width for b in boxes), max(b.height for b in boxes)
    share = min(0.92 * r / size for r, size in zip(room, largest, strict=True))
    points = texts[0].get_fontsize() * min(1.0, share)
    for text in texts:
        if points < _SMALLEST:
            text.remove()
        else:
            text.set_fontsize(points)

"""Draws a picture for a test and hands back its figure; what in it cannot be read."""

import itertools
from unittest import mock

from matplotlib.figure import Figure
from PIL import Image


def draw(path, plot, *args, **more):
    """Calls a plot; returns its figure after a look at the file it wrote."""
    figures, save = [], Figure.savefig

    def keep(figure, *args, **kwargs):
        figures.append(figure)
        save(figure, *args, **kwargs)

    with mock.patch.object(Figure, "savefig", keep):
        plot(path, *args, **more)
    if path.suffix == ".png":
        with Image.open(path) as image:
            assert len(image.convert("L").getcolors(256)) > 10  # not a blank page
    return figures[-1]


def faults(figure) -> list[str]:
    """Texts that are cut off or lie upon each other, and a legend upon any of them."""
    figure.draw_without_rendering()
    boxes = [(t.get_text(), t.get_window_extent()) for t in _texts(figure)]
    legends = [one.get_window_extent() for one in figure.legends]
    edge, found = figure.bbox, []
    for text, box in [*boxes, *(("legend", box) for box in legends)]:
        inside = box.x0 >= edge.x0 - 1 and box.x1 <= edge.x1 + 1
        if not (inside and box.y0 >= edge.y0 - 1 and box.y1 <= edge.y1 + 1):
            found.append(f"cut: {text}")
    for box in legends:
        found += [f"legend on {text}" for text, other in boxes if _upon(box, other)]
    for (a, one), (b, two) in itertools.combinations(boxes, 2):
        if _upon(one, two):
            found.append(f"{a} on {b}")
    return found


def _texts(figure):
    """Titles, names and ticks of all panels that are there, and of the figure."""
    given = [figure._suptitle, figure._supxlabel, figure._supylabel]
    for axes in figure.axes:
        if axes.get_visible():
            given += [axes.title, axes.xaxis.label, axes.yaxis.label]
            for axis in (axes.xaxis, axes.yaxis):
                low, high = sorted(axis.get_view_interval())
                given += [
                    tick.label1
                    for tick in axis.get_major_ticks()
                    if tick.label1.get_visible() and low <= tick.get_loc() <= high
                ]
    return [t for t in given if t is not None and t.get_text() and t.get_visible()]


def _upon(a, b) -> bool:
    """Whether two boxes share more than a pixel each way."""
    across = min(a.x1, b.x1) - max(a.x0, b.x0)
    return across > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1

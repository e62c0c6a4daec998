"""Draws pictures for tests, and reads texts, curves and unreadable texts in figures."""

import itertools
from functools import partial
from unittest import mock

import pytest
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image


def draw(path, plot, *args, dpi=None, **more):
    """Calls a plot; returns its figure after a look at the file it wrote."""
    figures, save = [], Figure.savefig

    def keep(figure, *args, **kwargs):
        figures.append(figure)
        save(figure, *args, **{**kwargs, **({"dpi": dpi} if dpi else {})})

    with mock.patch.object(Figure, "savefig", keep):
        plot(path, *args, **more)
    if path.suffix == ".png":
        with Image.open(path) as image:
            assert len(image.convert("L").getcolors(256)) > 10  # not a blank page
    return figures[-1]


@pytest.fixture
def drawn(tmp_path):
    return partial(draw, tmp_path / "x.png", dpi=100)


def ticks(axes, of="x") -> list[str]:
    labels = axes.get_xticklabels() if of == "x" else axes.get_yticklabels()
    return [label.get_text() for label in labels]


def titles(figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes if axes.get_visible()]


def legend(figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def lines(axes) -> dict:
    return {line.get_label(): line for line in axes.lines}


def dashed(axes) -> list:
    return [line for line in axes.lines if line.get_linestyle() == "--"]


def pixels(axes):
    return axes.images[0].get_array()


def apart(axes) -> bool:
    """Returns whether no labels below the horizontal axis touch."""
    renderer = FigureCanvasAgg(axes.figure).get_renderer()
    labels = [t for t in axes.get_xticklabels() if t.get_text()]
    boxes = (t.get_window_extent(renderer) for t in labels)
    return all(a.x1 < b.x0 for a, b in itertools.pairwise(boxes))


def faults(figure) -> list[str]:
    """Returns texts that are cut off, overlap each other or lie under a legend."""
    figure.draw_without_rendering()
    texts = [(t.get_text(), t.get_window_extent()) for t in _texts(figure)]
    legends = [one.get_window_extent() for one in figure.legends]
    edge, found = figure.bbox, []
    for text, box in [*texts, *(("legend", box) for box in legends)]:
        inside = box.x0 >= edge.x0 - 1 and box.x1 <= edge.x1 + 1
        if not (inside and box.y0 >= edge.y0 - 1 and box.y1 <= edge.y1 + 1):
            found.append(f"cut: {text}")
    for box in legends:
        found += [f"legend on {text}" for text, other in texts if _upon(box, other)]
    for (a, one), (b, two) in itertools.combinations(texts, 2):
        if _upon(one, two):
            found.append(f"{a} on {b}")
    return found


def _texts(figure):
    texts = [figure._suptitle, figure._supxlabel, figure._supylabel]
    for axes in filter(Artist.get_visible, figure.axes):
        texts += axes.texts
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label]
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = axis.get_major_ticks()
            texts += [t.label1 for t in ticks if low <= t.get_loc() <= high]
    return [t for t in texts if t is not None and t.get_text() and t.get_visible()]


def _upon(a, b) -> bool:
    """Returns whether two boxes share more than a pixel in both directions."""
    across = min(a.x1, b.x1) - max(a.x0, b.x0)
    return across > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1

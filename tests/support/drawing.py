"""Draws a picture for a test and hands back its figure."""

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
    with Image.open(path) as image:
        assert len(image.convert("L").getcolors(256)) > 10  # not a blank page
    return figures[-1]

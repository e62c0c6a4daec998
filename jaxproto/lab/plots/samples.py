"""Examples of clients, as images side by side or as points."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxproto.lab.plots import layout
from jaxproto.lab.plots.style import new_figure
from jaxproto.lab.plots.two_dimensional import class_colours, class_legend

_PIXELS = 64  # of the longer side of an image; larger images are subsampled
_HEAD = 0.3  # room for the class above an image, as a share of its height
_GAP = 0.08  # gap between two images, as a share of their width
_LETTERS = 12  # of the name of a class, which is cut there


def image_grid(
    path: str | Path,
    rows: Sequence[tuple[str, np.ndarray, Sequence[str]]],
    title: str = "",
):
    """Draws a row of images for each client, with the class above each.

    Args:
      rows: (name of the client, images [M, H, W, channels], classes [M]) of each row.
        Images are uint8, or floats, which are scaled to their smallest and largest
        value. One channel is grey, three are colours, and a fourth is opacity; other
        numbers of channels are averaged.
    """
    shown = _scale_pixels([_shrink(images) for _, images, _ in rows])
    height, width = shown[0].shape[1:3]
    columns = max(map(len, shown))
    size = 0.9 + 0.62 * columns, 0.5 + 0.62 * (1 + _HEAD) * len(rows) * height / width
    with new_figure(path, size) as figure:
        axes = figure.add_subplot(title=title)
        for r, (images, (_, _, classes)) in enumerate(zip(shown, rows, strict=True)):
            for c, (image, name) in enumerate(zip(images, classes, strict=True)):
                bottom = len(rows) - r - 1
                box = (c, c + 1 - _GAP, bottom, bottom + 1 / (1 + _HEAD))
                axes.imshow(image, extent=box, aspect="auto", interpolation="nearest")
                x, y = c + (1 - _GAP) / 2, box[3] + 0.03
                text = name if len(name) <= _LETTERS else name[: _LETTERS - 1] + "…"
                axes.text(x, y, text, ha="center", va="bottom", fontsize=6)
        axes.set(xlim=(0, columns), ylim=(0, len(rows)), xticks=[])
        middle = np.arange(len(rows))[::-1] + 0.5 / (1 + _HEAD)
        axes.set_yticks(middle, [name for name, _, _ in rows], fontsize=7)
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)


def _shrink(images):
    """Reduces images to _PIXELS a side, with one, three or four channels."""
    step = -(-max(images.shape[1:3]) // _PIXELS)
    images = images[:, ::step, ::step]
    drawable = images.shape[3] in (1, 3, 4)
    return images if drawable else images.mean(axis=3, keepdims=True)


def _scale_pixels(shown):
    """Scales images to [0, 1], in three or four channels."""
    if shown[0].dtype == np.uint8:
        low, high = 0, 255
    else:
        low, high = (f([f(images) for images in shown]) for f in (np.min, np.max))
    scaled = [(images - low) / (high - low or 1) for images in shown]
    return [np.repeat(a, 3, axis=3) if a.shape[3] == 1 else a for a in scaled]


def scatter_grid(
    path: str | Path,
    panels: Sequence[tuple[str, np.ndarray, np.ndarray]],
    behind_N2: np.ndarray,
    classes: Sequence[str],
    axis_names: tuple[str, str] = ("feature 1", "feature 2"),
):
    """Draws points of each client, coloured by class, over grey ones of all clients.

    Args:
      panels: (name of the client, points [M, 2], classes [M]) of each panel.
      behind_N2: Points [N, 2] of all clients.
      classes: Names of all classes.
      axis_names: Labels of the x axis and the y axis.
    """
    colours = np.array(list(class_colours(len(classes))))
    with new_figure(path, layout.figure_size(len(panels), (1.9, 1.9))) as figure:
        grid = layout.panels(figure, [name for name, *_ in panels])
        for axes, (_, point_M2, y_M) in zip(grid, panels, strict=True):
            axes.scatter(*behind_N2.T, color="0.87", s=2, lw=0, rasterized=True)
            axes.scatter(*point_M2.T, c=colours[y_M], s=5, lw=0, rasterized=True)
        figure.supxlabel(axis_names[0])
        figure.supylabel(axis_names[1])
        shown = list(range(len(classes)))
        class_legend(figure, list(grid), len(classes), shown, classes)

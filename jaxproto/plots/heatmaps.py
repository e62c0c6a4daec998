"""Who has what: examples of each class at each client."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots import matrix_axes
from jaxproto.plots.style import new_figure


def partition_heatmap(
    path: str | Path,
    counts_KC: np.ndarray,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
    name: str = "",
):
    """Examples of each class at each client; a blank cell is none.

    Args:
      path: of the file.
      counts_KC: examples.
      clients: numbers of the rows; 0, 1, ... by default.
      classes: numbers of the columns, likewise.
      name: of the run, for the title.
    """
    counts_KC = np.asarray(counts_KC)
    num_K, num_C = counts_KC.shape
    size = matrix_axes.figure_size(num_C, num_K, counts_KC.size <= matrix_axes.READABLE)
    with new_figure(path, size) as figure:
        import matplotlib
        from matplotlib.colors import ListedColormap, LogNorm

        blues = matplotlib.colormaps["Blues"](np.linspace(0.12, 1, 256))
        axes = figure.add_subplot()
        shown = np.ma.masked_equal(counts_KC, 0)
        scale = LogNorm(1, max(counts_KC.max(), 10))
        image = axes.imshow(shown, ListedColormap(blues), norm=scale, aspect="auto")
        bar = {"label": "examples (log scale; blank: none)", "aspect": 6 * size[1]}
        figure.colorbar(image, pad=0.02, **bar)
        axes.set(xlabel="class", ylabel="client")
        told = f"{num_K} clients, {num_C} classes, {counts_KC.sum():,} examples"
        axes.set_title(": ".join(filter(None, [name, told])))
        dark = np.asarray(scale(np.maximum(counts_KC, 1))) > 0.6
        matrix_axes.ticks(axes, counts_KC, (classes, clients))
        matrix_axes.cells(axes, counts_KC, counts_KC > 0, dark, "{:d}")

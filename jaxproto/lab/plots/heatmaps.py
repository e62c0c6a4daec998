"""Heatmaps of a partition, confusion matrices, class weights and sweeps."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.lab.plots import layout, matrix_axes
from jaxproto.lab.plots.style import figure_size, in_column, new_figure

_CELL, _MARGIN = (0.75, 0.45), (2.6, 1.5)  # inches: width, height
_DARK = 0.6  # share of the scale above which numbers are white
_LETTER = 0.066  # width in the name of a column, inches
_MISSING = "\N{EN DASH}"


def partition_heatmap(
    path: str | Path,
    counts_KC: np.ndarray,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
    name: str = "",
):
    """Draws the examples of each class at each client; a blank cell has none.

    Args:
      counts_KC: Number of examples of each client and class.
      clients: Client numbers of the rows; 0, 1, ... by default.
      classes: Class numbers of the columns; 0, 1, ... by default.
      name: Start of the title.
    """
    counts_KC = np.asarray(counts_KC)
    num_K, num_C = counts_KC.shape
    size = matrix_axes.figure_size(num_C, num_K)
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
        sizes = f"{num_K} clients, {num_C} classes, {counts_KC.sum():,} examples"
        axes.set_title(": ".join(filter(None, [name, sizes])))
        dark = np.asarray(scale(np.maximum(counts_KC, 1))) > _DARK
        matrix_axes.ticks(axes, counts_KC, (classes, clients))
        matrix_axes.cells(axes, counts_KC, counts_KC > 0, dark, "{:d}")


def confusion_matrices(
    path: str | Path,
    runs: Mapping[str, np.ndarray],
    classes: Sequence[int] | None = None,
    note: str = "",
):
    """Draws a confusion matrix for each run, in % of the true class.

    Args:
      runs: {title: examples [C, C], true class by predicted class}.
      classes: Rows and columns that are shown; all by default.
      note: Line below the panels.
    """
    first = next(iter(runs.values()))
    chosen = list(range(len(first)) if classes is None else classes)
    num = len(chosen)
    width, height = matrix_axes.figure_size(num, num)
    panel_size = (0.62 * width, 0.8 * height)
    with new_figure(path, layout.figure_size(len(runs), panel_size, 0.2)) as figure:
        drawn = layout.panels(figure, list(runs), share=False)
        for axes, count_CC in zip(drawn, runs.values(), strict=True):
            image = _draw_confusion(axes, np.asarray(count_CC, float), chosen)
        figure.colorbar(image, ax=list(drawn), label="% of the true class", pad=0.02)
        layout.label_outer_axes(drawn, "predicted class", "true class")
        figure.supxlabel(note)


def _draw_confusion(axes, count_CC, chosen):
    """Draws the matrix of one run for the chosen classes; returns the image."""
    total_C1 = count_CC.sum(1, keepdims=True)
    percent_CC = 100 * count_CC / np.where(total_C1 > 0, total_C1, 1)
    shown = percent_CC[np.ix_(chosen, chosen)]
    known = np.broadcast_to((total_C1 > 0)[chosen], shown.shape)
    axes.set_facecolor("0.85")  # for classes without examples
    masked, scale = np.ma.masked_where(~known, shown), {"vmin": 0, "vmax": 100}
    image = axes.imshow(masked, cmap="Blues", aspect="auto", **scale)
    axes.spines[:].set_visible(True)
    matrix_axes.ticks(axes, shown, (chosen, chosen))
    matrix_axes.cells(axes, shown, known & (shown >= 0.5), shown > 55, "{:.0f}")
    return image


def head_norms(
    path: str | Path,
    runs: Mapping[str, np.ndarray],
    count_KC: np.ndarray,
    *,
    axis: int = 1,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
):
    """Draws norms of class weights beside the data, both scaled (S Figure 3).

    Two runs have a panel of their difference as well (S Figure 10).

    Args:
      runs: {name: |phi_ij|_2, the length of the weights of class j at client i}, one or
        two.
      count_KC: Training examples of each client and class.
      axis: Axis of the minimum and maximum, as in `frobenius`.
      clients: Rows that are shown of the scaled matrices; all by default.
      classes: Columns that are shown; all by default.
    """
    scaled = [min_max(norm_KC, axis) for norm_KC in runs.values()]
    names = [*runs] if len(runs) > 1 else ["norm of class weights"]
    shown = [min_max(count_KC, axis), *scaled]
    differences = [scaled[1] - scaled[0]] if len(runs) == 2 else []
    titles = ["training examples", *names, *["second - first"] * len(differences)]
    distances = [
        f"{name} {frobenius(norm_KC, count_KC, axis):.2f}".strip()
        for name, norm_KC in runs.items()
    ]
    rows, columns = (
        list(range(n)) if chosen is None else list(chosen)
        for n, chosen in zip(count_KC.shape, (clients, classes), strict=True)
    )
    width, height = matrix_axes.figure_size(len(columns), len(rows), numbered=False)
    panel_size = max(2.3, min(width - 1.0, 8.0)), height - 0.5
    more = 1.7 if in_column() else 0.5  # colour bars are below the panels, or beside
    with new_figure(path, layout.figure_size(len(titles), panel_size, more)) as figure:
        figure.suptitle("Frobenius distance to the data: " + ", ".join(distances))
        drawn = layout.panels(figure, titles, share=False)
        images: list = []
        for axes, value_KC in zip(drawn, [*shown, *differences], strict=True):
            signed = len(images) >= len(shown)
            part_KC = value_KC[np.ix_(rows, columns)]
            scale = {"vmin": -1.0 * signed, "vmax": 1, "aspect": "auto"}
            colours = "RdBu" if signed else "viridis"
            images.append(axes.imshow(part_KC, colours, **scale))
            matrix_axes.ticks(axes, part_KC, (columns, rows))
        layout.label_outer_axes(drawn, "class", "client")
        side = "bottom" if in_column() else "right"
        bar = {"ax": list(drawn), "pad": 0.02, "location": side}
        scaled_by = ("class", "client")[axis]
        figure.colorbar(images[0], label=f"of each {scaled_by}, 0 to 1", **bar)
        if differences:
            figure.colorbar(images[-1], label="difference", **bar)


def frobenius(head_norm_KC: np.ndarray, count_KC: np.ndarray, axis: int = 1) -> float:
    """Returns the Frobenius norm of the difference of both matrices, scaled to 0 to 1.

    The paper scales "column-wise" by minimum and maximum and does not say what its
    columns are. Here a client's classes are scaled together (axis 1): the relation it
    cites, |phi_ij| / |phi_ik| = n_ij / n_ik, is between the classes of one client.

    Args:
      head_norm_KC: |phi_ij|_2, without biases.
      count_KC: Training examples of each client and class.
      axis: Axis of the minimum and maximum; 1: classes, 0: clients.
    """
    gap_KC = min_max(head_norm_KC, axis) - min_max(count_KC, axis)
    return float(np.linalg.norm(gap_KC))


def min_max(value_KC: np.ndarray, axis: int) -> np.ndarray:
    """Scales each row (axis 1) or column (axis 0) to [0, 1]; constant ones to 0."""
    value_KC = np.asarray(value_KC, float)
    low, high = (f(value_KC, axis, keepdims=True) for f in (np.min, np.max))
    return (value_KC - low) / np.where(high > low, high - low, 1)


def grid_heatmap(
    path: str | Path,
    values_RC: np.ndarray,
    rows: Sequence[str],
    columns: Sequence[str],
    labels: tuple[str, str],
    title: str,
):
    """Draws a number in each cell, coloured by its size; a dash for nan.

    Args:
      values_RC: Numbers of the cells.
      rows: Names of the rows.
      columns: Names of the columns.
      labels: Labels of the x axis and the y axis.
    """
    values_RC = np.ma.masked_invalid(np.asarray(values_RC, float))
    width = _MARGIN[0] + _CELL[0] * len(columns) + 0.06 * max(map(len, rows))
    longest = max(map(len, columns))
    room = (figure_size((width, 1.0))[0] - _MARGIN[0]) / len(columns)
    upright = _LETTER * longest > room
    height = _MARGIN[1] + _CELL[1] * len(rows) + 0.06 * upright * longest
    with new_figure(path, (width, height)) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(values_RC, cmap="Blues", aspect="auto")
        figure.colorbar(image, pad=0.02)
        axes.set(xlabel=labels[0], ylabel=labels[1], title=title)
        turned = {"rotation": 90 * upright}
        axes.set_xticks(range(len(columns)), columns, fontsize=8, **turned)
        axes.set_yticks(range(len(rows)), rows, fontsize=8)
        known = ~np.ma.getmaskarray(values_RC)
        dark = known & (np.ma.getdata(image.norm(values_RC)) > _DARK)
        matrix_axes.cells(axes, values_RC.data, known, dark, "{:.2f}")
        matrix_axes.cells(axes, values_RC.data, ~known, dark, _MISSING)

"""Norms of class weights beside the distribution of the data."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots import layout, matrix_axes
from jaxproto.plots.style import in_column, new_figure


def head_norms(
    path: str | Path,
    head_norm_KC: np.ndarray,
    count_KC: np.ndarray,
    *,
    axis: int = 1,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
    name: str = "",
):
    """Norms of class weights beside the data distribution, both scaled (S Figure 3).

    Args:
      path: of the file.
      head_norm_KC: |phi_ij|_2, the length of the weights of class j at client i.
      count_KC: training examples n_ij.
      axis: as in `frobenius`.
      clients: rows that are shown of the scaled matrices; all by default.
      classes: columns, likewise.
      name: of the run, for the title.
    """
    shown = {
        "training examples": min_max(count_KC, axis),
        "norm of class weights": min_max(head_norm_KC, axis),
    }
    distance = frobenius(head_norm_KC, count_KC, axis)
    title = ", ".join(filter(None, [name, f"Frobenius distance {distance:.2f}"]))
    _scaled(path, shown, {}, title, axis=axis, clients=clients, classes=classes)


def head_norm_difference(
    path: str | Path,
    runs: dict[str, np.ndarray],
    count_KC: np.ndarray,
    *,
    axis: int = 1,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
):
    """As `head_norms` for two runs, and what they differ in (S Figures 3 and 10).

    Args:
      path: of the file.
      runs: {name: |phi_ij|_2}, two.
      count_KC: training examples n_ij of both.
      axis: as in `frobenius`.
      clients: rows that are shown of the scaled matrices; all by default.
      classes: columns, likewise.
    """
    shown = {"training examples": min_max(count_KC, axis)}
    told = []
    for name, norm_KC in runs.items():
        shown[name] = min_max(norm_KC, axis)
        told.append(f"{name} {frobenius(norm_KC, count_KC, axis):.2f}")
    first, second = (min_max(norm_KC, axis) for norm_KC in runs.values())
    gap = {"second - first": second - first}
    title = "Frobenius distance to the data: " + ", ".join(told)
    _scaled(path, shown, gap, title, axis=axis, clients=clients, classes=classes)


def _scaled(path, shown, gaps, title, *, axis, clients, classes):
    """Matrices from 0 to 1 side by side, then differences from -1 to 1."""
    whole = next(iter(shown.values())).shape
    clients, classes = (
        list(range(n)) if asked is None else list(asked)
        for n, asked in zip(whole, (clients, classes), strict=True)
    )
    wide, high = matrix_axes.figure_size(len(classes), len(clients), False)
    total = len(shown) + len(gaps)
    part = max(2.3, min(wide - 1.0, 8.0)), high - 0.5
    with new_figure(path, layout.figure_size(total, part, 0.5)) as figure:
        figure.suptitle(title)
        drawn = layout.panels(figure, [*shown, *gaps], share=False)
        images = []
        for axes, value_KC in zip(drawn, {**shown, **gaps}.values(), strict=True):
            gap = len(images) >= len(shown)
            part_KC = value_KC[np.ix_(clients, classes)]
            scale = {
                "cmap": "RdBu" if gap else "viridis",
                "vmin": -1.0 * gap,
                "vmax": 1,
            }
            images.append(axes.imshow(part_KC, **scale, aspect="auto"))
            matrix_axes.ticks(axes, part_KC, (classes, clients))
        layout.label_outer_axes(drawn, "class", "client")
        how = ("of each class", "of each client")[axis]
        where = "bottom" if in_column() else "right"
        places = {"ax": list(drawn), "pad": 0.02, "location": where}
        figure.colorbar(images[0], label=f"{how}, 0 to 1", **places)
        if gaps:
            figure.colorbar(images[-1], label="difference", **places)


def frobenius(head_norm_KC: np.ndarray, count_KC: np.ndarray, axis: int = 1) -> float:
    """Frobenius norm of the difference of the two matrices, each scaled to 0 to 1.

    The paper scales "column-wise" by minimum and maximum and does not say what its
    columns are. Here a client's classes are scaled together (axis 1): the relation it
    cites, |phi_ij| / |phi_ik| = n_ij / n_ik, is between the classes of one client.

    Args:
      head_norm_KC: |phi_ij|_2, without biases.
      count_KC: examples n_ij.
      axis: over which minimum and maximum are taken; 1: classes, 0: clients.
    """
    gap_KC = min_max(head_norm_KC, axis) - min_max(count_KC, axis)
    return float(np.linalg.norm(gap_KC))


def min_max(value_KC: np.ndarray, axis: int) -> np.ndarray:
    """Each row (axis 1) or column (axis 0) from 0 to 1; zeros where all are equal."""
    value_KC = np.asarray(value_KC, float)
    low, high = (f(value_KC, axis, keepdims=True) for f in (np.min, np.max))
    return (value_KC - low) / np.where(high > low, high - low, 1)

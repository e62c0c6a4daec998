"""Norms of class weights beside the distribution of the data."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots import layout, matrix_axes
from jaxproto.plots.style import in_column, new_figure


def head_norms(
    path: str | Path,
    runs: Mapping[str, np.ndarray],
    count_KC: np.ndarray,
    *,
    clients: Sequence[int] | None = None,
    classes: Sequence[int] | None = None,
):
    """Draws norms of class weights beside the data, each client scaled (S Figure 3).

    Two runs have a panel of their difference as well (S Figure 10).

    Args:
      path: Path of the file.
      runs: {name: |phi_ij|_2, the length of the weights of class j at client i}, one or
        two.
      count_KC: Training examples n_ij.
      clients: Rows that are shown of the scaled matrices; all by default.
      classes: Columns that are shown; all by default.
    """
    scaled = [min_max(norm_KC, 1) for norm_KC in runs.values()]
    titles = [*runs] if len(runs) > 1 else ["norm of class weights"]
    shown = [min_max(count_KC, 1), *scaled]
    gaps = {"second - first": scaled[1] - scaled[0]} if len(runs) == 2 else {}
    apart = [f"{n} {frobenius(v, count_KC):.2f}".strip() for n, v in runs.items()]
    rows, columns = (
        list(range(n)) if chosen is None else list(chosen)
        for n, chosen in zip(count_KC.shape, (clients, classes), strict=True)
    )
    wide, high = matrix_axes.figure_size(len(columns), len(rows), False)
    part = max(2.3, min(wide - 1.0, 8.0)), high - 0.5
    with new_figure(
        path, layout.figure_size(len(shown) + len(gaps), part, 0.5)
    ) as figure:
        figure.suptitle("Frobenius distance to the data: " + ", ".join(apart))
        drawn = layout.panels(
            figure, ["training examples", *titles, *gaps], share=False
        )
        images: list = []
        for axes, value_KC in zip(drawn, [*shown, *gaps.values()], strict=True):
            gap = len(images) >= len(shown)
            part_KC = value_KC[np.ix_(rows, columns)]
            scale = {"vmin": -1.0 * gap, "vmax": 1, "aspect": "auto"}
            images.append(axes.imshow(part_KC, "RdBu" if gap else "viridis", **scale))
            matrix_axes.ticks(axes, part_KC, (columns, rows))
        layout.label_outer_axes(drawn, "class", "client")
        where = "bottom" if in_column() else "right"
        places = {"ax": list(drawn), "pad": 0.02, "location": where}
        figure.colorbar(images[0], label="of each client, 0 to 1", **places)
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

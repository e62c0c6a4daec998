"""Angles between class prototypes."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jaxproto.plots import matrix_axes
from jaxproto.plots.style import new_figure

_SPAN = 10.0  # degrees that the scale has at least: noise is no pattern


def prototype_angles(
    path: str | Path,
    mean_CD: np.ndarray,
    count_C: np.ndarray,
    classes: Sequence[int] | None = None,
    name: str = "",
):
    """Angles between class prototypes in degrees, each pair once.

    Colours go from the smallest to the largest. The title names the closest pair and
    the angle at which all are equally far apart.

    Args:
      path: of the file.
      mean_CD: global prototypes.
      count_C: 0 where a class has none; it is left out.
      classes: numbers of the rows; 0, 1, ... by default.
      name: first line of the title.
    """
    named = np.arange(len(mean_CD)) if classes is None else np.asarray(classes)
    there_C = (np.asarray(count_C) > 0) & (np.linalg.norm(mean_CD, axis=1) > 0)
    names, angle_CC = named[there_C], angles(np.asarray(mean_CD)[there_C])
    num = len(names)
    numbered = num**2 <= matrix_axes.READABLE
    with new_figure(
        path, matrix_axes.figure_size(num - 1, num - 1, numbered)
    ) as figure:
        axes = figure.add_subplot()
        axes.set_title(
            "\n".join(filter(None, [name, *_told(angle_CC, names, mean_CD)]))
        )
        axes.set(xlabel="class", ylabel="class")
        axes.spines[["top", "right"]].set_visible(False)
        if num < 2:
            return
        below_CC = np.tril(np.ones((num - 1, num - 1), bool))
        value = angle_CC[1:, :-1]
        low, high = _limits(value[below_CC])
        shown = np.ma.masked_where(~below_CC, value)
        image = axes.imshow(shown, cmap="cividis", vmin=low, vmax=high, aspect="auto")
        figure.colorbar(image, label="angle (degrees)", pad=0.02)
        matrix_axes.ticks(axes, value, (names[:-1], names[1:]))
        matrix_axes.cells(axes, value, below_CC, value < (low + high) / 2, "{:.0f}")


def _limits(value) -> tuple[float, float]:
    low, high = float(value.min()), float(value.max())
    more = max(0.0, _SPAN - (high - low)) / 2
    return max(0.0, low - more), min(180.0, high + more)


def _told(angle_CC, names, mean_CD) -> list[str]:
    """Mean and closest pair, and how far apart all could be."""
    num = len(names)
    if num < 2:
        return ["fewer than two classes have a prototype"]
    i, j = np.tril_indices(num, -1)
    value = angle_CC[i, j]
    k = int(value.argmin())
    closest = f"classes {names[j[k]]} and {names[i[k]]}"
    most = np.degrees(np.arccos(-1 / (num - 1)))  # of a regular simplex
    fits = num <= np.shape(mean_CD)[1] + 1
    mean = f"mean {value.mean():.1f}°" + f" (all equal: {most:.1f}°)" * fits
    return [mean, f"smallest {value[k]:.1f}°: {closest}"]


def cosines(mean_CD: np.ndarray) -> np.ndarray:
    """Cosine similarity [C, C] of the rows; 0 for a row of zeros."""
    norm_C1 = np.linalg.norm(mean_CD, axis=1, keepdims=True)
    unit_CD = mean_CD / np.where(norm_C1 > 0, norm_C1, 1)
    return np.clip(unit_CD @ unit_CD.T, -1, 1)


def angles(mean_CD: np.ndarray) -> np.ndarray:
    """Angles [C, C] between the rows, in degrees."""
    return np.degrees(np.arccos(cosines(mean_CD)))

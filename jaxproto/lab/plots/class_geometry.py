"""Angles, cosine similarities and margins of class prototypes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from jaxproto.lab.plots import layout, matrix_axes
from jaxproto.lab.plots.style import MARKERS, line_style, new_figure

_SPAN = 10.0  # least range of the scale in degrees; less would show rounding errors


def prototype_angles(
    path: str | Path,
    mean_CD: np.ndarray,
    count_C: np.ndarray,
    classes: Sequence[int] | None = None,
    name: str = "",
):
    """Draws the angle in degrees between each pair of class prototypes.

    The title names the closest pair and the angle at which all are equally far apart.

    Args:
      mean_CD: Global prototypes [C, D].
      count_C: Examples [C]; classes with 0 are left out.
      classes: Class numbers of the rows; 0, 1, ... by default.
      name: First line of the title.
    """
    rows = np.arange(len(mean_CD)) if classes is None else np.asarray(classes)
    has_C = (np.asarray(count_C) > 0) & (np.linalg.norm(mean_CD, axis=1) > 0)
    names, angle_CC = rows[has_C], angles(np.asarray(mean_CD)[has_C])
    num = len(names)
    size = matrix_axes.figure_size(num - 1, num - 1)
    lines = [name, *_title_lines(angle_CC, names, mean_CD)]
    with new_figure(path, size) as figure:
        axes = figure.add_subplot(title="\n".join(filter(None, lines)))
        axes.set(xlabel="class", ylabel="class")
        axes.spines[["top", "right"]].set_visible(False)
        if num < 2:
            return
        below_CC = np.tril(np.ones((num - 1, num - 1), bool))
        value = angle_CC[1:, :-1]
        low, high = value[below_CC].min(), value[below_CC].max()
        margin = max(0.0, _SPAN - (high - low)) / 2
        low, high = max(0.0, low - margin), min(180.0, high + margin)
        shown = np.ma.masked_where(~below_CC, value)
        image = axes.imshow(shown, cmap="cividis", vmin=low, vmax=high, aspect="auto")
        figure.colorbar(image, label="angle (degrees)", pad=0.02)
        matrix_axes.ticks(axes, value, (names[:-1], names[1:]))
        matrix_axes.cells(axes, value, below_CC, value < (low + high) / 2, "{:.0f}")


def _title_lines(angle_CC, names, mean_CD) -> list[str]:
    """Returns lines of the mean, the largest equal angle, and the closest pair."""
    num = len(names)
    if num < 2:
        return ["fewer than two classes have a prototype"]
    i, j = np.tril_indices(num, -1)
    value = angle_CC[i, j]
    k = int(value.argmin())
    closest = f"classes {names[j[k]]} and {names[i[k]]}"
    equal = np.degrees(np.arccos(-1 / (num - 1)))  # in a regular simplex
    fits = num <= np.shape(mean_CD)[1] + 1
    mean = f"mean {value.mean():.1f}°" + f" (all equal: {equal:.1f}°)" * fits
    return [mean, f"smallest {value[k]:.1f}°: {closest}"]


def cosines(mean_CD: np.ndarray) -> np.ndarray:
    """Returns the cosine similarities [C, C] of the rows; 0 for a row of zeros."""
    norm_C1 = np.linalg.norm(mean_CD, axis=1, keepdims=True)
    unit_CD = mean_CD / np.where(norm_C1 > 0, norm_C1, 1)
    return np.clip(unit_CD @ unit_CD.T, -1, 1)


def angles(mean_CD: np.ndarray) -> np.ndarray:
    """Returns the angles [C, C] between the rows, in degrees."""
    return np.degrees(np.arccos(cosines(mean_CD)))


def margins(path: str | Path, runs: Mapping[str, np.ndarray], classes: Sequence[int]):
    """Draws margins of global prototypes as shares of the largest one (N Figure 5).

    Args:
      runs: {name: [C] from 0 to 1, nan where a class has no prototype}.
      classes: Classes that are shown, in this order.
    """
    # mean, least and largest are one value
    rows = {name: (margin_C,) * 3 for name, margin_C in runs.items()}
    axis = {"ylabel": "margin / largest margin", "ylim": (0, 1.05)}
    _by_class(path, rows, classes, **axis)


def cosine_by_class(
    path: str | Path,
    runs: Mapping[str, tuple[np.ndarray, np.ndarray, np.ndarray]],
    classes: Sequence[int],
):
    """Draws the cosine similarity of global prototypes to the others (S Figure 2).

    Args:
      runs: {name: mean, least and largest over the other classes, each [C]}.
      classes: Classes that are shown, in this order.
    """
    title = "mean, least and largest over the other classes"
    _by_class(path, runs, classes, ylabel="cosine similarity", title=title)


def _by_class(path, runs, classes, **axis):
    """Draws a marker per run and class, runs side by side, with bars over the range."""
    num, chosen, handles = len(classes), list(classes), []
    with new_figure(path, (min(3 + 0.14 * max(num, 16), 12), 2.8)) as figure:
        axes = layout.panels(figure, [""])[0]
        for index, rows in enumerate(runs.values()):
            mean, low, high = (np.asarray(row)[chosen] for row in rows)
            x = np.arange(num) + 0.6 * ((index + 0.5) / len(runs) - 0.5)
            style = {"color": line_style(index)["color"], "ls": "none", "ms": 3.5}
            style |= {"marker": MARKERS[index % len(MARKERS)], "elinewidth": 0.9}
            bars = np.stack([mean - low, high - mean])
            handles.append(axes.errorbar(x, mean, bars, **style))
        matrix_axes.name_ticks(axes.xaxis, chosen)
        axes.set(xlabel="class", **axis)
        layout.legend(figure, handles, list(runs))

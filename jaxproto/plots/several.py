"""Several runs side by side: means over seeds with the least and the largest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.plots.canvas import blank, look, panels

_FAR_APART = 10  # times the least: below that a log scale is not worth it
_ABREAST = 24  # characters of names that fit side by side below a panel


class Band(NamedTuple):
    """A line, and what lies around it."""

    label: str
    x: Sequence  # numbers, or names where the values have no order
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    kind: str = "line"  # or points (with bars), or across (no x: a dashed line)


def band(label: str, x: Sequence, values_SN: np.ndarray, kind: str = "line") -> Band:
    """Mean, least and largest over the S rows; nan counts as missing.

    Args:
      label: of the line.
      x: N places.
      values_SN: a row for each run.
      kind: as in `Band`.
    """
    values_SN = np.asarray(values_SN, float)
    there_N = np.isfinite(values_SN).any(0)
    low, mean, high = (np.full(values_SN.shape[1], np.nan) for _ in range(3))
    known_SN = values_SN[:, there_N]
    for out, f in ((low, np.nanmin), (mean, np.nanmean), (high, np.nanmax)):
        out[there_N] = f(known_SN, axis=0)
    return Band(label, x, mean, low, high, kind)


def bands(
    path: str | Path,
    shown: Mapping[str, Sequence[Band]],
    xlabel: str,
    ylabel: str,
    note: str = "",
    whole: bool = False,
):
    """A panel for each title, with the same colour for the same label in all.

    The x axis is logarithmic where the places are apart by factors.

    Args:
      path: of the PNG file.
      shown: {title of a panel: its bands}.
      xlabel: of all panels.
      ylabel: of all panels.
      note: a line below.
      whole: values are counts.
    """
    labels = list(dict.fromkeys(b.label for rows in shown.values() for b in rows))
    wide = max(3.4, 2.8 * len(shown)) + 0.06 * max(map(len, labels))
    with blank(path, (1.2 + wide, 3.4)) as figure:
        handles = {}
        drawn = panels(figure, list(shown))
        for axes, rows in zip(drawn, shown.values(), strict=True):
            for b in rows:
                handles[b.label] = _draw(axes, b, labels.index(b.label))
        places = [b for rows in shown.values() for b in rows if len(b.x)]
        _x_axis(drawn, places)
        drawn[0].set_ylabel(ylabel)
        if whole:
            drawn[0].yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        place = {"loc": "outside right center", "fontsize": 7, "frameon": False}
        figure.legend([handles[k] for k in labels], labels, **place)
        figure.supxlabel("\n".join(filter(None, [xlabel, note])), fontsize="medium")


def _draw(axes, b, index):
    style = look(index)
    if b.kind == "across":
        axes.axhspan(b.low[0], b.high[0], color=style["color"], alpha=0.15, lw=0)
        return axes.axhline(b.mean[0], color=style["color"], ls="--", lw=1.4)
    if b.kind == "points":
        bars = np.stack([b.mean - b.low, b.high - b.mean])
        if any(isinstance(x, str) for x in b.x):  # without an order
            style["ls"] = "none"
        return axes.errorbar(b.x, b.mean, bars, marker="o", ms=4, capsize=3, **style)
    axes.fill_between(b.x, b.low, b.high, color=style["color"], alpha=0.18, lw=0)
    marker = "o" if len(b.x) == 1 else ""
    return axes.plot(b.x, b.mean, marker=marker, **style)[0]


def _x_axis(drawn, places):
    """Scale and ticks, which all panels share."""
    values, axes = [x for b in places for x in b.x], drawn[0]
    if not all(isinstance(x, int | float) for x in values):
        names = list(dict.fromkeys(values))
        axes.set_xlim(-0.5, len(names) - 0.5)
        if len("".join(names)) > _ABREAST:
            for each in drawn:
                each.tick_params(axis="x", labelrotation=90)
        return
    points = sorted({x for b in places if b.kind == "points" for x in b.x})
    above = [x for x in points if x > 0]
    if _by_factors(above) and points[0] >= 0:
        axes.set_xscale("symlog" if points[0] == 0 else "log", **_scale(points))
    if points and len(points) <= 8:
        axes.set_xticks(points, [f"{x:g}" for x in points])
        axes.minorticks_off()
        for each in drawn:
            each.tick_params(axis="x", labelsize=8)
    elif all(float(x).is_integer() for x in values):
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _scale(points) -> dict:
    """Where 0 is among the places, it lies as far below the next as that is wide."""
    return {"linthresh": points[1]} if points[0] == 0 else {}


def _by_factors(points) -> bool:
    """Whether places above 0 lie more evenly on a log scale, and far apart."""
    if len(points) < 2 or points[-1] < _FAR_APART * points[0]:
        return False
    return _closest(np.log(points)) > _closest(np.asarray(points, float))


def _closest(points) -> float:
    """The smallest gap, as a share of the whole."""
    return float(np.diff(points).min() / (points[-1] - points[0]))


def communication_cost(
    path: str | Path,
    parts: Sequence[tuple[str, str, Sequence[Band]]],
    note: str = "",
):
    """Scalars of a round against something, a panel each, both axes logarithmic.

    Args:
      path: of the PNG file.
      parts: title, name of the x axis, bands.
      note: a line below.
    """
    labels = [b.label for b in parts[0][2]]
    wide = 3.1 * len(parts) + 0.06 * max(map(len, labels))
    with blank(path, (1.4 + wide, 3.5)) as figure:
        row = figure.subplots(ncols=len(parts), sharey=True, squeeze=False)[0]
        for axes, (title, xlabel, shown) in zip(row, parts, strict=True):
            for index, b in enumerate(shown):
                axes.plot(b.x, b.mean, label=b.label, marker="o", ms=3, **look(index))
            axes.set(title=title, xlabel=xlabel, xscale="log", yscale="log")
            axes.set_xticks(shown[0].x, [f"{x:g}" for x in shown[0].x])
            axes.minorticks_off()
            axes.spines[["top", "right"]].set_visible(False)
        row[0].set_ylabel("scalars of a round, both ways")
        figure.supxlabel(note, fontsize="medium")
        place = {"loc": "outside right center", "fontsize": 7, "frameon": False}
        figure.legend(row[0].lines, labels, **place)

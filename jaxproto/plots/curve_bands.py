"""Several runs side by side: means over seeds with the least and the largest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.plots import layout
from jaxproto.plots.style import MARKERS, line_style, marker_style, new_figure

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
    mean, low, high = around(values_SN)
    return Band(label, x, mean, low, high, kind)


def around(values_SN) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, least and largest over the S rows [N]; nan counts as missing."""
    values_SN = np.asarray(values_SN, float)
    there_N = np.isfinite(values_SN).any(0)
    mean, low, high = (np.full(values_SN.shape[1], np.nan) for _ in range(3))
    known_SN = values_SN[:, there_N]
    for out, f in ((mean, np.nanmean), (low, np.nanmin), (high, np.nanmax)):
        out[there_N] = f(known_SN, axis=0)
    return mean, low, high


def bands(
    path: str | Path,
    shown: Mapping[str, Sequence[Band]],
    xlabel: str,
    ylabel: str,
    note: str = "",
    *,
    whole: bool = False,
    log: bool = False,
):
    """A panel for each title, with the same colour for the same label in all.

    The x axis is logarithmic where the places are apart by factors.

    Args:
      path: of the file.
      shown: {title of a panel: its bands}.
      xlabel: of all panels.
      ylabel: of all panels.
      note: a line below.
      whole: values are counts.
      log: the x axis is logarithmic in any case.
    """
    labels = list(dict.fromkeys(b.label for rows in shown.values() for b in rows))
    with new_figure(path, layout.figure_size(len(shown), (2.5, 2.3))) as figure:
        handles = {}
        drawn = layout.panels(figure, list(shown))
        for axes, rows in zip(drawn, shown.values(), strict=True):
            for b in rows:
                handles[b.label] = _draw(axes, b, labels.index(b.label))
        places = [b for rows in shown.values() for b in rows if len(b.x)]
        _x_axis(drawn, places)
        if log:
            drawn[0].set_xscale("log")
            drawn[0].xaxis.set_major_formatter("{x:g}")
        layout.label_outer_axes(drawn, "" if note else xlabel, ylabel)
        if whole:
            drawn[0].yaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if note:
            figure.supxlabel(f"{xlabel}\n{note}")
        layout.legend(figure, [handles[k] for k in labels], labels)


def _draw(axes, b, index):
    style, spread = line_style(index), np.any(b.high > b.low)
    band = {"color": style["color"], "alpha": 0.18, "lw": 0}
    if b.kind == "across":
        if spread:
            axes.axhspan(b.low[0], b.high[0], **band)
        return axes.axhline(b.mean[0], color=style["color"], ls="--", label=b.label)
    if b.kind == "points":
        bars = np.stack([b.mean - b.low, b.high - b.mean])
        if any(isinstance(x, str) for x in b.x):  # without an order
            style["ls"] = "none"
        sign = {"marker": MARKERS[index % len(MARKERS)], "ms": 4, "capsize": 3}
        return axes.errorbar(b.x, b.mean, bars, **sign, **style)
    if spread:
        axes.fill_between(b.x, b.low, b.high, **band)
    style |= {**marker_style(index, len(b.x)), "label": b.label}
    return axes.plot(b.x, b.mean, **style)[0]


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
      path: of the file.
      parts: title, name of the x axis, bands.
      note: a line below.
    """
    labels = [b.label for b in parts[0][2]]
    with new_figure(path, layout.figure_size(len(parts), (2.6, 2.4), 0.3)) as figure:
        row = layout.panels(figure, [title for title, *_ in parts], share=False)
        for axes, (_, xlabel, shown) in zip(row, parts, strict=True):
            for index, b in enumerate(shown):
                style = {**line_style(index), **marker_style(index, len(b.x))}
                axes.plot(b.x, b.mean, label=b.label, **style)
            axes.set(xlabel=xlabel, xscale="log", yscale="log")
            axes.set_xticks(shown[0].x, [f"{x:g}" for x in shown[0].x])
            axes.minorticks_off()
        row[0].set_ylabel("scalars of a round, both ways")
        figure.supxlabel(note)
        layout.legend(figure, row[0].lines, labels)

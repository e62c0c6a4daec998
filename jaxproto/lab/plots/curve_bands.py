"""Curves of several runs: means over seeds, with bands from least to largest."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.lab.plots import layout
from jaxproto.lab.plots.style import MARKERS, line_style, marker_style, new_figure

_FAR_APART = 10  # factor between values from which the scale may be logarithmic
_LETTER = 0.058  # width in the label of a tick, inches


class Band(NamedTuple):
    """A line with a band around it."""

    label: str
    x: Sequence  # numbers, or names where the values have no order
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    kind: str = "line"  # or "points" with error bars, or "across", which has no x


def band(label: str, x: Sequence, values_SN: np.ndarray, kind: str = "line") -> Band:
    """Returns the mean, least and largest over runs; nan counts as missing.

    Args:
      x: Positions on the x axis [N].
      values_SN: Values of each run.
      kind: Kind of line, as in `Band`.
    """
    return Band(label, x, *around(values_SN), kind)


def around(values_SN) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns mean, least and largest [N] over the S rows; nan counts as missing."""
    values_SN = np.asarray(values_SN, float)
    known_N = np.isfinite(values_SN).any(0)
    mean, low, high = (np.full(values_SN.shape[1], np.nan) for _ in range(3))
    for out, f in ((mean, np.nanmean), (low, np.nanmin), (high, np.nanmax)):
        out[known_N] = f(values_SN[:, known_N], axis=0)
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
    """Draws a panel for each title; a label has one colour in all panels.

    The x axis of points is logarithmic if that spaces positive positions more evenly.

    Args:
      shown: {title of a panel: its bands}.
      note: Line below the panels.
      whole: Whether values are counts, with ticks at integers alone.
      log: Whether the x axis is logarithmic in any case.
    """
    labels = list(dict.fromkeys(b.label for rows in shown.values() for b in rows))
    with new_figure(path, layout.figure_size(len(shown), (2.5, 2.3))) as figure:
        handles = {}
        drawn = layout.panels(figure, list(shown))
        for axes, rows in zip(drawn, shown.values(), strict=True):
            for b in rows:
                handles[b.label] = _draw(axes, b, labels.index(b.label))
        _x_axis(drawn, [b for rows in shown.values() for b in rows if len(b.x)])
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
    """Draws a `Band` in the style of an index; returns the handle for the legend."""
    style, has_range = line_style(index), np.any(b.high > b.low)
    shade = {"color": style["color"], "alpha": 0.18, "lw": 0}
    if b.kind == "across":
        if has_range:
            axes.axhspan(b.low[0], b.high[0], **shade)
        return axes.axhline(b.mean[0], color=style["color"], ls="--", label=b.label)
    if b.kind == "points":
        bars = np.stack([b.mean - b.low, b.high - b.mean])
        if any(isinstance(x, str) for x in b.x):  # without an order
            style["ls"] = "none"
        marker = {"marker": MARKERS[index % len(MARKERS)], "ms": 4, "capsize": 3}
        return axes.errorbar(b.x, b.mean, bars, **marker, **style)
    if has_range:
        axes.fill_between(b.x, b.low, b.high, **shade)
    style |= {**marker_style(index, len(b.x)), "label": b.label}
    return axes.plot(b.x, b.mean, **style)[0]


def _x_axis(drawn, rows):
    """Sets the scale and the ticks that all panels share, for `Band`s that have x."""
    values, axes = [x for b in rows for x in b.x], drawn[0]
    if not all(isinstance(x, int | float) for x in values):
        names = list(dict.fromkeys(values))
        axes.set_xlim(-0.5, len(names) - 0.5)
        if not _fit(axes, names, 1 / len(names)):
            for panel in drawn:
                panel.tick_params(axis="x", labelrotation=90)
        return
    points = sorted({x for b in rows if b.kind == "points" for x in b.x})
    positive = [x for x in points if x > 0]
    if _is_more_even_on_a_log_scale(positive) and points[0] >= 0:
        # The axis is linear from 0 to the next point.
        scale = {} if points[0] else {"linthresh": points[1]}
        axes.set_xscale("log" if points[0] else "symlog", **scale)
    texts, places = [f"{x:g}" for x in points], axes.transScale.transform
    x = [places((x, 1))[0] for x in points]
    if points and (len(points) < 2 or _fit(axes, texts, _smallest_gap(x))):
        axes.set_xticks(points, texts)
        axes.minorticks_off()
    elif axes.get_xscale() == "linear" and all(float(x).is_integer() for x in values):
        axes.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _fit(axes, texts, gap: float) -> bool:
    """Returns whether texts fit side by side, `gap` of the width of a panel apart."""
    return _LETTER * (1 + max(map(len, texts))) <= gap * layout.inches(axes)[0]


def _is_more_even_on_a_log_scale(points) -> bool:
    """Returns whether positive positions are far apart and more even on a log scale."""
    if len(points) < 2 or points[-1] < _FAR_APART * points[0]:
        return False
    return _smallest_gap(np.log(points)) > _smallest_gap(np.asarray(points, float))


def _smallest_gap(points) -> float:
    """Returns the smallest gap as a share of the range."""
    return float(np.diff(points).min() / (points[-1] - points[0]))


def communication_cost(
    path: str | Path,
    parts: Sequence[tuple[str, str, Sequence[Band]]],
    note: str = "",
):
    """Draws the scalars of a round in panels with two logarithmic axes.

    Args:
      parts: (title, label of the x axis, bands) of each panel.
      note: Line below the panels.
    """
    labels = [b.label for b in parts[0][2]]
    with new_figure(path, layout.figure_size(len(parts), (2.6, 2.4), 0.3)) as figure:
        row = layout.panels(figure, [title for title, *_ in parts], share=False)
        for axes, (_, xlabel, shown) in zip(row, parts, strict=True):
            for index, b in enumerate(shown):
                _draw(axes, b, index)
            axes.set(xlabel=xlabel, xscale="log", yscale="log")
            axes.set_xticks(shown[0].x, [f"{x:g}" for x in shown[0].x])
            axes.minorticks_off()
        row[0].set_ylabel("scalars of a round, both ways")
        figure.supxlabel(note)
        layout.legend(figure, row[0].lines, labels)

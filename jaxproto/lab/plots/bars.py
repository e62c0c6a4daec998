"""Bars of the rounds and bytes that each method needs to reach an accuracy."""

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.lab.plots import layout
from jaxproto.lab.plots.curves import MIN_SPACING, UNITS, largest_unit
from jaxproto.lab.plots.style import COLOURS, in_column, new_figure

_BAR = 0.24  # height of a bar with its gap, inches
_LETTER = 0.055  # width in the label of a bar with its gap, inches


class Bar(NamedTuple):
    """Rounds and bytes that the seeds of a method need to reach an accuracy."""

    label: str
    rounds: Sequence[float]  # of each seed that reached it
    sent: Sequence[float]  # bytes of each seed that reached it, both ways
    seeds: int  # number of all seeds
    best: float  # per cent, of the best evaluation of any seed


def rounds_to_target_bars(path: str | Path, bars: Sequence[Bar], title: str):
    """Draws a panel of rounds and one of bytes: means with lines over the range."""
    most_bytes = max((max(b.sent, default=0) for b in bars), default=0)
    unit, size = largest_unit(most_bytes, UNITS)
    stacked = in_column()
    labels = [textwrap.fill(b.label, 18) if stacked else b.label for b in bars]
    height = _BAR * sum(1 + 0.6 * label.count("\n") for label in labels)
    inches = (3.25, 1.7 + 2 * height) if stacked else (6.75, 1.1 + height)
    with new_figure(path, inches) as figure:
        figure.suptitle(title)
        grid = {"nrows": 2} if stacked else {"ncols": 2}
        first, second = figure.subplots(**grid, sharey=True)
        _bars(first, bars, [np.array(b.rounds, float) for b in bars], _rounds)
        sent = [np.array(b.sent, float) / size for b in bars]
        _bars(second, bars, sent, lambda value: _bytes(value * size))
        first.set_xlabel("rounds")
        second.set_xlabel(f"sent until then, both ways ({unit})")
        first.set_yticks(range(len(bars)), labels)
        first.set_ylim(len(bars) - 0.5, -0.5)
        if first.get_xscale() == "linear":
            first.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _rounds(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _bytes(sent: float) -> str:
    """Returns a number of bytes in the largest unit that it reaches."""
    unit, size = largest_unit(sent, UNITS)
    return f"{sent / size:.3g} {unit}"


def _bars(axes, bars: Sequence[Bar], values: Sequence[np.ndarray], form):
    """Draws the mean of each bar's values, with its label and a line over the range."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    labels = [_bar_label(b, row, form) for b, row in zip(bars, values, strict=True)]
    beside = (len(k) for k, row in zip(labels, values, strict=True) if len(row))
    share = max(0.4, 1 - _LETTER * max(beside, default=0) / layout.inches(axes)[0])
    start = _scale(axes, [v for row in values for v in row], share)
    for i, (label, row) in enumerate(zip(labels, values, strict=True)):
        end = start
        if len(row):
            axes.barh(i, row.mean() - start, 0.62, left=start, color=COLOURS[0])
            end = max(start, float(row.max()))
            if len(row) > 1:
                axes.plot([row.min(), end], [i, i], color="black", lw=1)
        style = {"va": "center", "fontsize": 6, "clip_on": False}
        offset = {"xytext": (3, 0), "textcoords": "offset points"}
        axes.annotate(label, (end, i), **style, **offset).set_in_layout(False)


def _scale(axes, values: Sequence[float], share: float) -> float:
    """Sets the scale and returns where bars begin.

    The scale is logarithmic if values are far apart.

    Args:
      share: Of the width, for the longest bar; its label is beside it.
    """
    largest = max(values, default=0.0)
    if not largest:  # no bar has a length, which a scale could measure
        axes.tick_params(axis="x", bottom=False, labelbottom=False)
        axes.set_xlim(0, 1)
        return 0.0
    least = min(v for v in values if v > 0)
    if largest <= MIN_SPACING * least:
        axes.set_xlim(0, largest / share)
        return 0.0
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(least / 2, least / 2 * (2 * largest / least) ** (1 / share))
    return least / 2


def _bar_label(bar: Bar, values: np.ndarray, form: Callable[[float], str]) -> str:
    """Returns the mean, and how many seeds reached the accuracy if not all did."""
    if not bar.seeds:
        return "has no such rule"
    if not len(values):
        return f"not reached (best {bar.best:.1f} %)"
    reached = f", {len(values)} of {bar.seeds} seeds" * (len(values) < bar.seeds)
    return form(float(values.mean())) + reached

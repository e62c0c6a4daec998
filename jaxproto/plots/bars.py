"""Rounds and bytes until an accuracy: a bar for each method."""

import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto.plots.curves import MIN_SPACING, UNITS
from jaxproto.plots.style import COLOURS, in_column, new_figure

_BAR = 0.24  # inches of a bar with its gap


class Bar(NamedTuple):
    """What the seeds of a method needed; those that never came there are left out."""

    label: str
    rounds: Sequence[float]
    sent: Sequence[float]  # bytes, both ways
    seeds: int
    best: float  # per cent, of the best evaluation of any seed


def rounds_to_target_bars(path: str | Path, bars: Sequence[Bar], title: str):
    """Two panels of bars: rounds, bytes; means, and lines from least to largest.

    Args:
      path: of the file.
      bars: from top to bottom.
      title: which accuracy.
    """
    most = max((max(b.sent, default=0) for b in bars), default=0)
    unit, size = next(u for u in UNITS.items() if max(most, 1) >= u[1])
    above = in_column()  # and not beside each other
    lines = [textwrap.fill(b.label, 18) if above else b.label for b in bars]
    high = _BAR * sum(1 + 0.6 * line.count("\n") for line in lines)
    inches = (3.25, 1.7 + 2 * high) if above else (6.75, 1.1 + high)
    with new_figure(path, inches) as figure:
        figure.suptitle(title)
        shape = {"nrows": 2} if above else {"ncols": 2}
        left, right = figure.subplots(**shape, sharey=True)
        _bars(left, bars, [np.array(b.rounds, float) for b in bars], _rounds)
        _bars(right, bars, [np.array(b.sent, float) / size for b in bars], _bytes(size))
        left.set_xlabel("rounds")
        right.set_xlabel(f"sent until then, both ways ({unit})")
        left.set_yticks(range(len(bars)), lines)
        left.set_ylim(len(bars) - 0.5, -0.5)
        left.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)


def _rounds(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def _bytes(size: float) -> Callable[[float], str]:
    """How a number of so many bytes each is said, in the unit that fits it."""

    def say(value: float) -> str:
        sent = value * size
        unit, one = next((u for u in UNITS.items() if sent >= u[1]), ("B", 1.0))
        return f"{sent / one:.3g} {unit}"

    return say


def _bars(axes, bars: Sequence[Bar], values: Sequence[np.ndarray], say):
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    start = _scale(axes, [v for found in values for v in found])
    for i, (bar, found) in enumerate(zip(bars, values, strict=True)):
        end = start
        if len(found):
            axes.barh(i, found.mean() - start, 0.62, left=start, color=COLOURS[0])
            end = max(start, float(found.max()))
            if len(found) > 1:
                axes.plot([found.min(), end], [i, i], color="black", lw=1)
        text = {"va": "center", "fontsize": 6, "xytext": (3, 0)}
        where = {"textcoords": "offset points", "clip_on": False}
        told = axes.annotate(_said(bar, found, say), (end, i), **text, **where)
        told.set_in_layout(False)


def _scale(axes, known: Sequence[float]) -> float:
    """Where bars begin: 0, or below the least on a log scale if they are far apart.

    Room is left for what is said beside the longest.
    """
    top = max(known, default=1.0) or 1.0
    least = min((v for v in known if v > 0), default=top)
    if top <= MIN_SPACING * least:
        axes.set_xlim(0, 1.4 * top)
        return 0.0
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_xlim(least / 2, top * (2 * top / least) ** 0.45)
    return least / 2


def _said(bar: Bar, found: np.ndarray, say: Callable[[float], str]) -> str:
    """The mean, and how many seeds came there if not all did."""
    if not bar.seeds:
        return "has no such rule"
    if not len(found):
        return f"not reached (best {bar.best:.1f} %)"
    short = f", {len(found)} of {bar.seeds} seeds" * (len(found) < bar.seeds)
    return say(float(found.mean())) + short

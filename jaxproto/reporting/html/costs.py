"""What runs have sent, and the time and memory that they took."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jaxproto.reporting.html import figure
from jaxproto.reporting.html.run_view import (
    SeedGroupView,
    bytes_until,
    number,
    seconds_until,
)
from jaxproto.reporting.html.table import MISSING, Table, amount
from jaxproto.storage.run_folder import RunFolder

LEGEND = {
    "showlegend": True,
    "legend": {
        "orientation": "h",
        "y": 1.02,
        "yanchor": "bottom",
        "traceorder": "normal",
    },
}
HEAD = (
    *("method", "up a round", "down a round", "sent in all", "scalars a round"),
    *("s a round", "training s", "compiling s", "host memory", "device memory"),
)


def table(lines: Sequence[SeedGroupView]) -> Table:
    """A row per line, means over its seeds."""
    rows = [(line.label, *_row(line.runs)) for line in lines]
    return Table("Bytes, times and memory, mean over seeds", HEAD, rows)


def figures(lines: Sequence[SeedGroupView]) -> tuple[str, str]:
    """Returns the figures of bytes and of seconds of a round."""
    byte = [
        _bar(lines, way, i, [_mean(_of_records(one.runs, key)) for one in lines])
        for i, (way, key) in enumerate((("up", "bytes_up"), ("down", "bytes_down")))
    ]
    each = [_mean(map(_round_seconds, line.runs)) for line in lines]
    return (
        figure.as_html("plot-bytes", byte, _layout(lines, "bytes") | LEGEND),
        figure.as_html(
            "plot-seconds",
            [_bar(lines, "seconds", 2, each)],
            _layout(lines, "seconds"),
        ),
    )


def _bar(
    lines: Sequence[SeedGroupView], name: str, i: int, values: Sequence[float | None]
) -> dict:
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "x": values,
        "y": [str(k) for k in range(len(lines))],
        "text": [figure.text(line.label) for line in lines],
        "textposition": "none",
        "marker": {"color": figure.colour(i)},
        "hovertemplate": f"%{{text}}<br>{name}: %{{x:.4s}}<extra></extra>",
    }


def _layout(lines: Sequence[SeedGroupView], unit: str) -> dict:
    """Returns the layout of horizontal bars, the first line on top."""
    return {
        "barmode": "stack",
        "height": max(200, 110 + 26 * len(lines)),
        "xaxis": {
            "title": {"text": f"{unit} of a round"},
            "exponentformat": "SI",
            "rangemode": "tozero",
        },
        "yaxis": {
            "type": "category",
            "tickvals": [str(k) for k in range(len(lines))],
            "ticktext": [figure.text(line.label, 24) for line in lines],
            "autorange": "reversed",
            **figure.BARE,
        },
    }


def _row(runs: Sequence[RunFolder]) -> tuple[str, ...]:
    nominal = _mean(_entry(s, "scalars_per_round", "nominal") for s in runs)
    return (
        amount(_mean(_of_records(runs, "bytes_up"))),
        amount(_mean(_of_records(runs, "bytes_down"))),
        amount(_mean(bytes_until(s.last) for s in runs if s.last)),
        MISSING if nominal is None else f"{nominal:,.0f}",
        _text(_mean(map(_round_seconds, runs)), ".3g"),
        _text(
            _mean(max(seconds_until(s).values(), default=None) for s in runs), ",.0f"
        ),
        _text(_mean(_entry(s, "compile_seconds") for s in runs), ".1f"),
        amount(_mean(_entry(s, "peak_memory_bytes", "host") for s in runs)),
        amount(_mean(_entry(s, "peak_memory_bytes", "device") for s in runs)),
    )


def _of_records(runs: Iterable[RunFolder], name: str) -> list[float | None]:
    """Mean over the evaluations of each run."""
    return [_mean(number(r.get(name)) for r in one.records) for one in runs]


def _round_seconds(one: RunFolder) -> float | None:
    """Median; without the first evaluation, whose rounds may wait for a program."""
    found = [number(r.get("seconds")) for r in one.records[1:] or one.records]
    known = [v for v in found if v is not None]
    return statistics.median(known) if known else None


def _entry(one: RunFolder, *names: str) -> float | None:
    """A number of the summary, which may be in a group."""
    found: Any = one.summary
    for name in names:
        found = found.get(name) if isinstance(found, Mapping) else None
    return number(found)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return statistics.fmean(known) if known else None


def _text(value: float | None, form: str) -> str:
    return MISSING if value is None else format(value, form)

"""Bytes that runs have sent, and the time and memory that they took."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jaxproto.lab.html import figure
from jaxproto.lab.html.run_view import SeedGroupView, bytes_until, seconds_until
from jaxproto.lab.html.table import Table, amount
from jaxproto.storage.run_folder import RunFolder
from jaxproto.summary.metric_record import value_at
from jaxproto.summary.table_formats import MISSING

HEAD = (
    *("method", "up a round", "down a round", "sent in all", "scalars a round"),
    *("s a round", "training s", "compiling s", "host memory", "device memory"),
)


def table(lines: Sequence[SeedGroupView]) -> Table:
    """Returns a row per line, means over its seeds."""
    rows = [(line.label, *_cells(line.runs)) for line in lines]
    return Table("Bytes, times and memory, mean over seeds", HEAD, rows)


def figures(lines: Sequence[SeedGroupView]) -> tuple[str, str]:
    """Returns the figures of bytes and of seconds of a round."""
    up, down = (
        [_mean(_per_round(line.runs, way)) for line in lines] for way in ("up", "down")
    )
    seconds = [_mean(map(_round_seconds, line.runs)) for line in lines]
    return (
        _bars("bytes", lines, {"up": up, "down": down}),
        _bars("seconds", lines, {"seconds": seconds}),
    )


def _bars(unit: str, lines: Sequence[SeedGroupView], bars: Mapping[str, list]) -> str:
    """Returns a figure of horizontal bars, the first line on top."""
    rows = list(range(len(lines)))[::-1]
    style: dict[str, Any] = {"orientation": "h", "textposition": "none", "y": rows}
    labels = [figure.text(line.label) for line in lines]
    traces = [
        figure.trace(
            "bar",
            {},
            x=values,
            name=name,
            marker_color=figure.colour(i if len(bars) > 1 else 2),
            hovertemplate=f"%{{text}}<br>{name}: %{{x:.4s}}<extra></extra>",
            text=labels,
            **style,
        )
        for i, (name, values) in enumerate(bars.items())
    ]
    ticks = [figure.text(line.label, 24) for line in lines]
    layout = {
        "xaxis": {"exponentformat": "SI", "rangemode": "tozero"},
        "yaxis": figure.BARE | {"tickvals": rows, "ticktext": ticks},
        "height": max(200, 110 + 26 * len(lines)),
        "xaxis_title_text": f"{unit} of a round",
    }
    stacked = {"barmode": "stack", "showlegend": len(bars) > 1}
    return figure.as_html(f"plot-{unit}", traces, **layout, **stacked)


def _cells(runs: Sequence[RunFolder]) -> Iterator[str]:
    """Yields the cells of a row after the label."""
    for way in ("up", "down"):
        yield amount(_mean(_per_round(runs, way)))
    yield amount(_mean(bytes_until(run.last) for run in runs if run.last))
    training = (max(seconds_until(run).values(), default=None) for run in runs)
    for value, form in (
        (_mean_entry(runs, "scalars_per_round", "nominal"), ",.0f"),
        (_mean(map(_round_seconds, runs)), ".3g"),
        (_mean(training), ",.0f"),
        (_mean_entry(runs, "compile_seconds"), ".1f"),
    ):
        yield MISSING if value is None else format(value, form)
    for device in ("host", "device"):
        yield amount(_mean_entry(runs, "peak_memory_bytes", device))


def _per_round(runs: Iterable[RunFolder], way: str) -> Iterator[float | None]:
    """Yields the bytes of each run in a direction, mean over all its rounds."""
    for run in runs:
        total = value_at(run.last, "bytes_total", way)
        yield None if total is None else total / max(run.round, 1)


def _round_seconds(run: RunFolder) -> float | None:
    """Returns the median over evaluations but the first, which may compile."""
    seconds = [r.get("seconds") for r in run.records[1:] or run.records]
    known = [value for value in seconds if value is not None]
    return statistics.median(known) if known else None


def _mean_entry(runs: Sequence[RunFolder], *path: str) -> float | None:
    """Returns the mean of a number of the summaries."""
    return _mean(value_at(run.summary, *path) for run in runs)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else None

"""Figure of the accuracies of all lines, with the options of its controls.

Curves are over rounds, bytes and seconds: mean, least and largest over seeds.
"""

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from jaxproto.lab.compare.columns import Part
from jaxproto.lab.html import figure
from jaxproto.lab.html.figure import Option, When
from jaxproto.lab.html.run_view import SeedGroupView, bytes_until, seconds_until
from jaxproto.papers.cells import published_for
from jaxproto.papers.rules import published_rule

AXES = {"round": "round", "bytes": "bytes sent", "seconds": "seconds of training"}
ABOUT = (
    "Line: mean over the seeds that have come so far; band: least to largest. "
    "Dotted and level: what papers print for the same setting."
)
FEW = 40  # points of a line up to which each has a marker
ACCURACY = "accuracy"
AVERAGES = {  # name in records -> average
    "pooled": "pooled",
    "client_mean": "client_mean",
    "mean": "client_mean",
}
Key = tuple[str, str, str]  # measure, rule, average
BYTES, SECONDS = ("bytes", "", ""), ("seconds", "", "")


class Curve(NamedTuple):
    """Numbers of a line at each of its evaluations; None where there is no number."""

    x: dict[str, list]  # rounds; bytes and seconds until then, means over seeds
    values: dict[Key, dict[str, list]]  # {"mean", "low", "high", "n": ...} over seeds
    published: list[dict]  # {"key": ..., "value": ..., "text": ...}


def curve(line: SeedGroupView) -> Curve:
    """Returns the numbers of a line."""
    by_key: dict[Key, dict[int, list[float]]] = {BYTES: {}, SECONDS: {}}
    for run in line.runs:
        seconds = seconds_until(run)
        for record in run.records:
            r = record["round"]
            costs = (BYTES, bytes_until(record)), (SECONDS, seconds.get(r))
            for key, value in (*costs, *_record_values(record)):
                if value is not None:
                    by_key.setdefault(key, {}).setdefault(r, []).append(value)
    rounds = sorted({record["round"] for run in line.runs for record in run.records})
    values = {key: _over_seeds(rounds, numbers) for key, numbers in by_key.items()}
    sent, elapsed = values.pop(BYTES)["mean"], values.pop(SECONDS)["mean"]
    x = {"round": rounds, "bytes": sent, "seconds": elapsed}
    return Curve(x, values, list(_published(line)))


def _record_values(record: Mapping) -> Iterator[tuple[Key, float]]:
    """Yields the numbers of a record: accuracies in %, other measures as they are."""
    measured = [(ACCURACY, rule, shares) for rule, shares in record["rules"].items()]
    for rule, metrics in record.get("metrics", {}).items():
        measured += [(name, rule, averages) for name, averages in metrics.items()]
    for measure, rule, averages in measured:
        for name, average in AVERAGES.items():
            value = averages.get(name)
            if isinstance(value, int | float):  # others have a value per class
                scale = 100 if measure == ACCURACY else 1
                yield (measure, rule, average), scale * value


def _over_seeds(rounds: Sequence[int], numbers: Mapping[int, list[float]]) -> dict:
    """Returns statistics over the seeds that have come to each round, in six digits."""
    seeds = [numbers.get(r, []) for r in rounds]
    columns: dict[str, list] = {"n": [len(values) for values in seeds]}
    for name, f in (("mean", statistics.fmean), ("low", min), ("high", max)):
        columns[name] = [float(f"{f(v):.6g}") if v else None for v in seeds]
    return columns


def _published(line: SeedGroupView) -> Iterator[dict]:
    """Yields the accuracies that papers print for the same setting, and their rules."""
    for row in published_for(line.group.config, line.group.dataset):
        rule = published_rule(row)
        with contextlib.suppress(ValueError):  # no number
            yield {
                "key": (ACCURACY, rule.rule, rule.average),
                "value": float(row.mean),
                "text": str(Part(row.mean, row.std, row.place)),
            }


Pairs = Sequence[tuple[SeedGroupView, Curve]]


def accuracy(lines: Sequence[SeedGroupView]) -> dict:
    """Returns the figure with a curve per line, measure, rule and average.

    The dict also has the options of its controls and its captions, by their names in
    the template.
    """
    pairs = [(line, curve(line)) for line in lines]
    traces = [trace for pair in pairs for trace in _curves(*pair)]
    levels = [level for pair in pairs for level in _levels(*pair, len(lines))]
    layout = _layout([line_curve for _, line_curve in pairs])
    return {
        "html": figure.as_html("plot-curves", traces + levels, **layout),
        "methods": [_method(line) for line in lines],
        "captions": [Option(ABOUT), *_missing(pairs)],
        "published": bool(levels),
        **_options(pairs),
    }


def _when(line: SeedGroupView, key: Key) -> When:
    return line.when | dict(zip(("measure", "rule", "average"), key, strict=True))


def _curves(line: SeedGroupView, numbers: Curve) -> Iterator[dict]:
    """Yields the curves of a line, each after the edges of its band over seeds."""
    i, x = line.position, numbers.x["round"]
    for key, values in numbers.values.items():
        trace = partial(figure.trace, "scatter", _when(line, key), i, x=x)
        seeds = _seeds(values) if max(values["n"]) > 1 else None
        if seeds:
            edge = partial(trace, mode="lines", line_width=0, hoverinfo="skip")
            yield edge(y=values["low"])
            yield edge(y=values["high"], fill="tonexty", fillcolor=figure.faint(i))
        shown = "%{fullData.name}: %{y:.2f}" + " %" * (key[0] == ACCURACY)
        yield trace(
            y=values["mean"],
            name=figure.text(line.label),
            text=seeds,
            mode="lines" if len(x) > FEW else "lines+markers",
            marker_size=5,
            line={"color": figure.colour(i), "dash": figure.dash(i), "width": 2},
            hovertemplate=f"{shown}{'%{text}' if seeds else ''}<extra></extra>",
        )


def _seeds(values: dict[str, list]) -> list[str]:
    """Returns ` (2 seeds, 45.00 to 60.00)` for each round that has several seeds."""
    rows = zip(values["n"], values["low"], values["high"], strict=True)
    return [f" ({n} seeds, {a:.2f} to {b:.2f})" if n > 1 else "" for n, a, b in rows]


def _levels(line: SeedGroupView, numbers: Curve, x_offset: int) -> Iterator[dict]:
    """Yields the level lines of published accuracies."""
    i = line.position
    for row in numbers.published:
        yield figure.trace(
            "scatter",
            _when(line, row["key"]) | {"published": "yes"},
            x_offset + i,
            mode="lines",
            x=[0, 0],  # the page puts the range of the axis here
            y=[row["value"]] * 2,
            name=f"{figure.text(line.label)}, published",
            text=figure.text(row["text"]),
            line={"color": figure.colour(i), "dash": "dot", "width": 1.5},
            hovertemplate="%{fullData.name}: %{text}<extra></extra>",
        )


def _layout(curves: Sequence[Curve]) -> dict:
    """Returns the layout; its `meta` has the properties that choices change."""
    ranges = [
        {axis: [0, max(filter(None, c.x[axis]), default=0)] for axis in AXES}
        for c in curves
    ]
    nearest = {"hovermode": "closest", "hoverdistance": 20, "xaxis.nticks": 0}
    unified = {"hovermode": "x unified", "hoverdistance": -1}  # -1: however far
    last = max(x_range["round"][1] for x_range in ranges)
    unified["xaxis.nticks"] = last + 1 if last <= 10 else 0  # few: whole rounds only
    against = {
        axis: {"xaxis.title.text": title, **(unified if axis == "round" else nearest)}
        for axis, title in AXES.items()
    }
    measures = sorted({measure for c in curves for measure, _, _ in c.values})
    titles = [f"test {figure.text(m)}{' (%)' * (m == ACCURACY)}" for m in measures]
    y_axes = [{"yaxis.title.text": title} for title in titles]
    measure = dict(zip(measures, y_axes, strict=True))
    choices = {"against": against, "measure": measure}
    return {
        "meta": {"x": [c.x for c in curves] + ranges, "layout": choices},
        "xaxis_unifiedhovertitle_text": "round %{x}",
        "xaxis": {"rangemode": "tozero", "exponentformat": "SI"},
        "height": 460,
    }


def _options(pairs: Pairs) -> dict[str, list[Option]]:
    """Returns the options of data sets, measures and rules; commonest rules first."""
    measures: dict[str, list[When]] = {}
    rules: dict[str, list[When]] = {}
    for line, numbers in pairs:
        when = {"dataset": line.dataset}
        for measure, rule, _ in numbers.values:
            measures.setdefault(measure, []).append(when)
            rules.setdefault(rule, []).append(when | {"measure": measure})
    datasets = dict.fromkeys(line.dataset for line, numbers in pairs if numbers.values)
    accuracy_first = sorted(measures, key=lambda measure: measure != ACCURACY)
    commonest_first = sorted(rules, key=lambda rule: -len(rules[rule]))
    return {
        "datasets": [Option(name, value=name) for name in datasets],
        "measures": [Option(name, measures[name], name) for name in accuracy_first],
        "rules": [Option(name, rules[name], name) for name in commonest_first],
    }


def _method(line: SeedGroupView) -> dict:
    """Returns the checkbox of a line."""
    seeds = f" ({len(line.runs)} seeds)" if len(line.runs) > 1 else ""
    i, text = line.position, line.label + seeds
    style = {"solid": "solid", "dash": "dashed"}.get(figure.dash(i), "dotted")
    border = f"{style} {figure.colour(i)}"
    return {"text": text, "border": border, "when": [{"dataset": line.dataset}]}


def _missing(pairs: Pairs) -> Iterator[Option]:
    """Yields the lines without a curve where others of their data set have one."""
    for line, numbers in pairs:
        curves = [other.values for view, other in pairs if view.dataset == line.dataset]
        for key in dict.fromkeys(key for values in curves for key in values):
            if key not in numbers.values:
                yield Option(f"Not measured: {line.label}.", [_when(line, key)])

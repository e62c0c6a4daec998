"""Figure of the accuracies of all lines, with the options of its controls."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from jaxproto.reporting.html import figure
from jaxproto.reporting.html.accuracy_curves import ACCURACY, Curve, Key, curve
from jaxproto.reporting.html.figure import Caption, Option, When
from jaxproto.reporting.html.run_view import SeedGroupView

AXES = {"round": "round", "bytes": "bytes sent", "seconds": "seconds of training"}
ABOUT = (
    "Line: mean over the seeds that have come so far; band: least to largest. "
    "Dotted and level: what papers print for the same setting."
)
FEW = 40  # rounds that have a marker each


class Accuracy(NamedTuple):
    """The figure, and what its controls offer."""

    html: str
    measures: list[Option]
    rules: list[Option]
    datasets: list[Option]
    methods: list[dict]  # {"text", "colour", "dash", "when"}
    captions: list[Caption]
    published: bool


def accuracy(lines: Sequence[SeedGroupView]) -> Accuracy:
    """Returns the figure with a curve per line, measure, rule and average."""
    made = [curve(line) for line in lines]
    both = list(zip(lines, made, strict=True))
    ends = [_end(one) for one in made]
    traces = [t for i, (line, one) in enumerate(both) for t in _curves(i, line, one)]
    traces += [
        _level(i, line, row, len(made) + i)
        for i, (line, one) in enumerate(both)
        for row in one.published
    ]
    measures, rules, datasets = _options(both)
    return Accuracy(
        figure.as_html("plot-curves", traces, _layout(made, ends)),
        measures,
        rules,
        datasets,
        methods=[_method(i, line) for i, line in enumerate(lines)],
        captions=[Caption(ABOUT), *_lacking(both)],
        published=any(one.published for one in made),
    )


def _when(i: int, line: SeedGroupView, key: Key) -> When:
    measure, rule, average = key
    mine = {"method": str(i), "dataset": line.dataset}
    return {**mine, "measure": measure, "rule": rule, "average": average}


def _curves(i: int, line: SeedGroupView, made: Curve) -> Iterator[dict]:
    """Yields the curves of a line, each after the edges of its band over seeds."""
    for key, values in made.values.items():
        shared = {"type": "scatter", "x": made.x["round"], "connectgaps": True}
        shared |= figure.meta(_when(i, line, key), x=i)
        band = max(values["n"]) > 1
        if band:
            edge = shared | {"mode": "lines", "line": {"width": 0}, "hoverinfo": "skip"}
            yield edge | {"y": values["low"]}
            fill = {"fill": "tonexty", "fillcolor": figure.faint(i)}
            yield edge | fill | {"y": values["high"]}
        line_ = {"color": figure.colour(i), "dash": figure.dash(i), "width": 2}
        unit = " %" * (key[0] == ACCURACY)
        told = f"%{{fullData.name}}: %{{y:.2f}}{unit}{'%{text}' * band}"
        yield shared | {
            "y": values["mean"],
            "name": figure.text(line.label),
            "text": _seeds(values) if band else None,
            "mode": "lines" if len(values["n"]) > FEW else "lines+markers",
            "marker": {"size": 5},
            "line": line_,
            "hovertemplate": f"{told}<extra></extra>",
        }


def _seeds(values: dict[str, list]) -> list[str]:
    """Returns ` (2 seeds, 45.00 to 60.00)` of each round that has several."""
    each = zip(values["n"], values["low"], values["high"], strict=True)
    return [f" ({n} seeds, {a:.2f} to {b:.2f})" if n > 1 else "" for n, a, b in each]


def _level(i: int, line: SeedGroupView, row: dict, x: int) -> dict:
    """Returns the level line of a published accuracy."""
    return {
        "type": "scatter",
        "mode": "lines",
        "x": [0, 0],  # its end is that of the axis
        "y": [row["value"]] * 2,
        "name": f"{figure.text(line.label)}, published",
        "text": figure.text(row["text"]),
        "line": {"color": figure.colour(i), "dash": "dot", "width": 1.5},
        "hovertemplate": "%{fullData.name}: %{text}<extra></extra>",
        **figure.meta(_when(i, line, row["key"]) | {"published": "yes"}, x=x),
    }


def _end(made: Curve) -> dict[str, list]:
    """Returns 0 and the last value on each axis."""
    return {k: [0, max((v for v in made.x[k] if v), default=0)] for k in AXES}


def _layout(made: Sequence[Curve], ends: Sequence[dict]) -> dict:
    """Returns the layout; its `meta` has what the choices change."""
    few = all(end["round"][1] <= 10 for end in ends)
    against = {
        name: {
            "xaxis.title.text": title,
            "xaxis.dtick": 1 if few and name == "round" else None,
            "hovermode": "x unified" if name == "round" else "closest",
            "hoverdistance": -1 if name == "round" else 20,  # the nearest, however far
        }
        for name, title in AXES.items()
    }
    measures = {measure for one in made for measure, _, _ in one.values}
    measure = {
        name: {"yaxis.title.text": f"test {figure.text(name)}"} for name in measures
    }
    if ACCURACY in measure:
        measure[ACCURACY]["yaxis.title.text"] += " (%)"
    x = [one.x for one in made] + list(ends)
    return {
        "meta": {"x": x, "layout": {"against": against, "measure": measure}},
        "xaxis": {
            "unifiedhovertitle": {"text": "round %{x}"},
            "rangemode": "tozero",
            "exponentformat": "SI",
        },
        "height": 460,
    }


def _options(both: Sequence[tuple[SeedGroupView, Curve]]) -> tuple[list[Option], ...]:
    """Returns the options of measures, rules and data sets; commonest rules first."""
    measures: dict[str, list[When]] = {}
    rules: dict[str, list[When]] = {}
    times: Counter[str] = Counter()
    for line, made in both:
        times.update({rule for _, rule, _ in made.values})
        for measure, rule, _ in made.values:
            where = {"dataset": line.dataset}
            for offered, when in (
                (measures.setdefault(measure, []), where),
                (rules.setdefault(rule, []), where | {"measure": measure}),
            ):
                if when not in offered:
                    offered.append(when)
    datasets = dict.fromkeys(line.dataset for line, made in both if made.values)
    return (
        [
            Option(k, k, measures[k])
            for k in sorted(measures, key=lambda k: k != ACCURACY)
        ],
        [Option(k, k, rules[k]) for k in sorted(rules, key=lambda k: -times[k])],
        [Option(name, name) for name in datasets],
    )


def _method(i: int, line: SeedGroupView) -> dict:
    """Returns the checkbox of a line."""
    seeds = f" ({len(line.runs)} seeds)" if len(line.runs) > 1 else ""
    style = {"solid": "solid", "dash": "dashed"}.get(figure.dash(i), "dotted")
    when = [{"dataset": line.dataset}]
    look = {"colour": figure.colour(i), "dash": style}
    return {"text": line.label + seeds, **look, "when": when}


def _lacking(both: Sequence[tuple[SeedGroupView, Curve]]) -> Iterator[Caption]:
    """Yields the lines without a curve where others of their data set have one."""
    for i, (line, made) in enumerate(both):
        beside = [one.values for other, one in both if other.dataset == line.dataset]
        for key in dict.fromkeys(key for values in beside for key in values):
            if key not in made.values:
                yield Caption(f"Not measured: {line.label}.", [_when(i, line, key)])

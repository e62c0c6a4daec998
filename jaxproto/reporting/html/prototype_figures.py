"""Figures of global prototypes: angles between them, and places in a plane."""

from collections.abc import Sequence

import numpy as np

from jaxproto.reporting.html import figure
from jaxproto.reporting.html.figure import Option, When
from jaxproto.reporting.html.prototypes import Learnt, Points

FEW = 12  # classes whose angles are written in the cells
NAMED = 20  # classes whose stars have a name
MARKERS = {
    "local": {"symbol": "triangle-up", "size": 8, "opacity": 0.7},
    "global": {"symbol": "star", "size": 17, "line": {"width": 1.5, "color": "#888"}},
}
ABOUT = "Stars: global prototypes; triangles: local ones, in the colour of their class"


def figures(learnt: Sequence[Learnt]) -> dict:
    """Returns the figures of the prototypes of each run, their options and captions."""
    choices: list[When] = [{"run": str(i)} for i in range(len(learnt))]
    pairs = list(zip(learnt, choices, strict=True))
    planes = [(one.points, when) for one, when in pairs if one.points]
    marks = [_marks(*place, kind) for place in planes for kind in MARKERS]
    axis = {"type": "category", "title": "class", **figure.BARE}
    angles = [_heatmap(*pair) for pair in pairs]
    axes = {}
    for one, when in pairs:  # the axes of two dimensions have a scale
        plain = one.dimensions == 2
        ticks = {f"{axis}axis.showticklabels": plain for axis in "xy"}
        axes[when["run"]] = ticks | {"yaxis.scaleanchor": "x" if plain else None}
    layout = {"meta": {"layout": {"run": axes}}}
    lines = {"xaxis_zeroline": False, "yaxis_zeroline": False}
    return {
        "options": [Option(one.run, value=when["run"]) for one, when in pairs],
        "angles": figure.as_html("plot-angles", angles, xaxis=axis, yaxis=axis),
        "about_angles": [Option(_about(one), [when]) for one, when in pairs],
        "plane": figure.as_html("plot-plane", marks, **layout, **lines),
        "about_plane": [Option(f"{ABOUT}; {one.how}.", [when]) for one, when in pairs],
    }


def _about(one: Learnt) -> str:
    if np.isnan(one.angles).all():
        return f"{one.run}, round {one.round}: no two classes have a global prototype."
    return (
        f"{one.run}, round {one.round}: angles between global prototypes, "
        f"{one.dimensions} dimensions: smallest {np.nanmin(one.angles):.1f}, "
        f"mean {np.nanmean(one.angles):.1f} degrees."
    )


def _heatmap(one: Learnt, when: When) -> dict:
    classes = [str(c) for c in range(len(one.angles))]
    texts = "%{z:.0f}" if len(classes) <= FEW else ""
    hover = "classes %{y} and %{x}: %{z:.1f} degrees<extra></extra>"
    more = {"texttemplate": texts, "hovertemplate": hover}
    values = one.angles.round(2)
    return figure.heatmap(when, values, classes, classes, "degrees", **more)


def _marks(points: Points, when: When, kind: str) -> dict:
    """Returns the marks of global or local prototypes, coloured by class."""
    classes = np.unique(points.label).tolist()
    few = len(classes) <= len(figure.COLOURS)
    colours = {
        c: figure.colour(i) if few else f"hsl({360 * i // len(classes)},65%,50%)"
        for i, c in enumerate(classes)
    }
    rows = np.flatnonzero((points.client < 0) == (kind == "global"))
    labels, clients = points.label[rows].tolist(), points.client[rows].tolist()
    x, y = ([float(f"{v:.5g}") for v in axis] for axis in points.place[rows].T)
    named = kind == "global" and len(classes) <= NAMED
    owners = zip(labels, clients, strict=True)
    return figure.trace(
        "scatter",
        when,
        mode="markers+text" if named else "markers",
        name=f"{kind} prototype",
        x=x,
        y=y,
        text=list(map(str, labels)),
        textposition="top center",
        customdata=[f"class {c}" + f", client {k}" * (k >= 0) for c, k in owners],
        marker=MARKERS[kind] | {"color": [colours[c] for c in labels]},
        hovertemplate="%{fullData.name}, %{customdata}<extra></extra>",
    )

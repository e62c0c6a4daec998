"""Figures of global prototypes: angles between them, and places in a plane."""

from collections.abc import Sequence

import numpy as np

from jaxproto.reporting.html import figure
from jaxproto.reporting.html.figure import Option, When
from jaxproto.reporting.html.prototypes import Learnt, Points

FEW = 12  # classes up to which cells have angles as text
NAMED = 20  # classes up to which stars have names
MARKERS = {
    "local": {"symbol": "triangle-up", "size": 8, "opacity": 0.7},
    "global": {"symbol": "star", "size": 17, "line": {"width": 1.5, "color": "#888"}},
}
ABOUT = "Stars: global prototypes; triangles: local ones, in the colour of their class"


def figures(learnt: Sequence[Learnt]) -> dict:
    """Returns the figures of the prototypes of each run, their options and captions."""
    choices: list[When] = [{"run": str(i)} for i in range(len(learnt))]
    pairs = list(zip(learnt, choices, strict=True))
    planes = [(protos.points, when) for protos, when in pairs if protos.points]
    marks = [_marks(*plane, kind) for plane in planes for kind in MARKERS]
    axis = {"type": "category", "title": "class", **figure.BARE}
    angles = [_heatmap(*pair) for pair in pairs]
    axes = {}
    for protos, when in pairs:  # axes are the dimensions themselves, if they are two
        is_2d = protos.dimensions == 2
        ticks = {f"{axis}axis.showticklabels": is_2d for axis in "xy"}
        axes[when["run"]] = ticks | {"yaxis.scaleanchor": "x" if is_2d else None}
    layout = {"meta": {"layout": {"run": axes}}}
    lines = {"xaxis_zeroline": False, "yaxis_zeroline": False}
    return {
        "options": [Option(protos.run, value=when["run"]) for protos, when in pairs],
        "angles": figure.as_html("plot-angles", angles, xaxis=axis, yaxis=axis),
        "about_angles": [Option(_about(protos), [when]) for protos, when in pairs],
        "plane": figure.as_html("plot-plane", marks, **layout, **lines),
        "about_plane": [
            Option(f"{ABOUT}; {protos.how}.", [when]) for protos, when in pairs
        ],
    }


def _about(protos: Learnt) -> str:
    run = f"{protos.run}, round {protos.round}"
    if np.isnan(protos.angles).all():
        return f"{run}: no two classes have a global prototype."
    return (
        f"{run}: angles between global prototypes, "
        f"{protos.dimensions} dimensions: smallest {np.nanmin(protos.angles):.1f}, "
        f"mean {np.nanmean(protos.angles):.1f} degrees."
    )


def _heatmap(protos: Learnt, when: When) -> dict:
    classes = [str(c) for c in range(len(protos.angles))]
    texts = "%{z:.0f}" if len(classes) <= FEW else ""
    hover = "classes %{y} and %{x}: %{z:.1f} degrees<extra></extra>"
    more = {"texttemplate": texts, "hovertemplate": hover}
    values = protos.angles.round(2)
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

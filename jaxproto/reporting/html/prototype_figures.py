"""Figures of global prototypes: angles between them, and places in a plane."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jaxproto.reporting.html import figure
from jaxproto.reporting.html.figure import Caption, Option, When
from jaxproto.reporting.html.prototypes import Learnt, Points

FEW = 12  # classes whose angles are written in the cells
NAMED = 20  # classes whose stars have a name
MARKERS = {
    "local": {"symbol": "triangle-up", "size": 8, "opacity": 0.7},
    "global": {"symbol": "star", "size": 17, "line": {"width": 1.5, "color": "#888"}},
}


class Shown(NamedTuple):
    """The figures, the options of their control and the captions of each option."""

    options: list[Option]
    angles: str
    about_angles: list[Caption]
    plane: str
    about_plane: list[Caption]


def shown(learnt: Sequence[Learnt]) -> Shown:
    """Returns the figures of the prototypes of each run."""
    options = [Option(str(i), one.run) for i, one in enumerate(learnt)]
    told = "Stars: global prototypes; triangles: local ones, in the colour of their "
    return Shown(
        options,
        _angles(learnt),
        [Caption(_about_angles(one), [_choice(i)]) for i, one in enumerate(learnt)],
        _plane(learnt),
        [
            Caption(f"{told}class; {one.how}.", [_choice(i)])
            for i, one in enumerate(learnt)
        ],
    )


def _choice(i: int) -> When:
    return {"run": str(i)}


def _angles(learnt: Sequence[Learnt]) -> str:
    """Returns the figure of the angles, class 0 on top."""
    traces = [_heatmap(one, _choice(i)) for i, one in enumerate(learnt)]
    axis = {"title": {"text": "class"}, "type": "category", **figure.BARE}
    return figure.as_html("plot-angles", traces, {"xaxis": axis, "yaxis": axis})


def _about_angles(one: Learnt) -> str:
    if np.isnan(one.angles).all():
        return f"{one.run}, round {one.round}: no two classes have a global prototype."
    return (
        f"{one.run}, round {one.round}: angles between global prototypes, "
        f"{one.dimensions} dimensions: smallest {np.nanmin(one.angles):.1f}, "
        f"mean {np.nanmean(one.angles):.1f} degrees."
    )


def _heatmap(one: Learnt, when: When) -> dict:
    classes = [str(c) for c in range(len(one.angles))]
    few = len(classes) <= FEW
    return {
        "type": "heatmap",
        "x": classes,
        "y": classes[::-1],
        "z": one.angles[::-1].round(2).tolist(),
        "colorscale": figure.SCALE,
        "colorbar": {"thickness": 12, "title": {"text": "degrees", "side": "right"}},
        "hoverongaps": False,
        "texttemplate": "%{z:.0f}" if few else "",
        "xgap": int(few),
        "ygap": int(few),
        "hovertemplate": "classes %{y} and %{x}: %{z:.1f} degrees<extra></extra>",
        **figure.meta(when),
    }


def _plane(learnt: Sequence[Learnt]) -> str:
    """Returns the figure of the places; the axes of two dimensions have a scale."""
    traces = [
        _marks(one.points, kind, _choice(i))
        for i, one in enumerate(learnt)
        if one.points is not None
        for kind in MARKERS
    ]
    axes = {
        str(i): {
            "xaxis.showticklabels": one.dimensions == 2,
            "yaxis.showticklabels": one.dimensions == 2,
            "yaxis.scaleanchor": "x" if one.dimensions == 2 else None,
        }
        for i, one in enumerate(learnt)
    }
    axis = {"zeroline": False}
    layout = {"meta": {"layout": {"run": axes}}, "xaxis": axis, "yaxis": axis}
    return figure.as_html("plot-plane", traces, layout)


def _marks(points: Points, kind: str, when: When) -> dict:
    """Returns the marks of global or local prototypes, coloured by class."""
    classes = np.unique(points.label).tolist()
    rows = np.flatnonzero((points.client < 0) == (kind == "global"))
    labels = points.label[rows].tolist()
    hues = {c: _hue(classes.index(c), len(classes)) for c in classes}
    named = kind == "global" and len(classes) <= NAMED
    owners = zip(labels, points.client[rows].tolist(), strict=True)
    return {
        "type": "scatter",
        "mode": "markers+text" if named else "markers",
        "name": f"{kind} prototype",
        "x": [float(f"{x:.5g}") for x in points.place[rows, 0]],
        "y": [float(f"{y:.5g}") for y in points.place[rows, 1]],
        "text": [str(c) for c in labels],
        "textposition": "top center",
        "customdata": [f"class {c}" + f", client {k}" * (k >= 0) for c, k in owners],
        "marker": MARKERS[kind] | {"color": [hues[c] for c in labels]},
        "hovertemplate": "%{fullData.name}, %{customdata}<extra></extra>",
        **figure.meta(when),
    }


def _hue(i: int, of: int) -> str:
    """Returns a colour of the palette, or of as many hues as there are classes."""
    few = of <= len(figure.COLOURS)
    return figure.colour(i) if few else f"hsl({360 * i // of},65%,50%)"

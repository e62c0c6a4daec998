"""Figures of plotly, and the choices that decide which of their traces are shown.

A figure holds the traces of every choice. `meta` of a trace names its choices, and
`static/page.js` shows the traces whose choices are those of the controls of the page.
"""

import html
from collections.abc import Sequence
from typing import Any, NamedTuple

When = dict[str, str]  # name of a control -> its value

COLOURS = (  # each has a contrast of 3 to a light page and to a dark one
    *("#0072b2", "#d55e00", "#009e73", "#b35c92"),
    *("#b87a00", "#2f8fc4", "#737373", "#c23b4e"),
)
DASHES = ("solid", "dash", "dot", "dashdot")
SCALE = [[0, "#7b4fa3"], [0.35, "#3b82c4"], [0.7, "#2fb47c"], [1, "#e8c51c"]]
BARE = {"showgrid": False, "zeroline": False}
CONFIG = {
    "displaylogo": False,
    "modeBarButtonsToRemove": ["lasso2d", "select2d", "autoScale2d"],
}


class Option(NamedTuple):
    """An option of a control, and the choices of other controls that offer it."""

    value: str
    text: str
    when: Sequence[When] = ({},)  # one of them must hold


class Caption(NamedTuple):
    """A sentence below a figure, and the choices that show it."""

    text: str
    when: Sequence[When] = ({},)  # one of them must hold


def colour(i: int) -> str:
    """Returns the colour of the i-th line of a figure."""
    return COLOURS[i % len(COLOURS)]


def faint(i: int) -> str:
    """Returns the transparent colour of the i-th line, for a band."""
    red, green, blue = bytes.fromhex(colour(i)[1:])
    return f"rgba({red},{green},{blue},0.18)"


def dash(i: int) -> str:
    """Returns the dash pattern of the i-th line; it changes when colours repeat."""
    return DASHES[i // len(COLOURS) % len(DASHES)]


def text(name: str, most: int = 70) -> str:
    """Returns a name, cut to `most` characters, that plotly does not read as HTML."""
    return html.escape(
        name if len(name) <= most else f"{name[: most - 1]}…", quote=False
    )


def meta(when: When, **more) -> dict:
    """Returns the `meta` and `visible` of a trace that is shown for some choices."""
    return {"meta": {"when": [when], **more}, "visible": False}


def as_html(div_id: str, traces: Sequence[dict], layout: dict) -> str:
    """Returns the HTML of a figure, without the script of plotly.

    Args:
      div_id: Identifier of the element on the page.
      traces: Traces as plotly names their properties.
      layout: Layout, laid over the one that all figures share.
    """
    from plotly import graph_objects  # takes a second: only who needs it pays

    shared: dict[str, Any] = {
        "template": "none",
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 13, "family": "system-ui, sans-serif"},
        "margin": {"l": 55, "r": 15, "t": 30, "b": 45},
        "hoverlabel": {"namelength": -1},
        "hovermode": "closest",
        "showlegend": False,
        "height": 420,
    }
    made = graph_objects.Figure(list(traces), shared | layout)
    made.update_xaxes(automargin=True).update_yaxes(automargin=True)
    return made.to_html(
        config=CONFIG, include_plotlyjs=False, full_html=False, div_id=div_id
    )

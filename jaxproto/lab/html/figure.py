"""Figures of plotly, and the choices that decide which of their traces are shown.

A figure holds the traces of every choice. `meta` of a trace names its choices, and
`static/page.js` shows the traces whose choices are those of the controls of the page.
"""

import html
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

When = dict[str, str]  # name of a control -> its value

COLOURS = (  # each has a contrast of at least 3 to the light and the dark page
    *("#0072b2", "#d55e00", "#009e73", "#b35c92"),
    *("#b87a00", "#2f8fc4", "#737373", "#c23b4e"),
)
DASHES = ("solid", "dash", "dot", "dashdot")
BARE = {"showgrid": False, "zeroline": False}
LEGEND = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "traceorder": "normal"}
TEMPLATE_LAYOUT = {
    **{"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)"},
    **{"font_size": 13, "font_family": "system-ui, sans-serif", "height": 420},
    **{"margin": {"l": 55, "r": 15, "t": 30, "b": 45}, "hoverlabel_namelength": -1},
    **{"hovermode": "closest", "showlegend": False, "legend": LEGEND},
    **{"xaxis_automargin": True, "yaxis_automargin": True},
}
HEATMAP = {
    "colorscale": [[0, "#7b4fa3"], [0.35, "#3b82c4"], [0.7, "#2fb47c"], [1, "#e8c51c"]],
    **{"colorbar_thickness": 12, "colorbar_title_side": "right", "hoverongaps": False},
}
BUTTONS = ["lasso2d", "select2d", "autoScale2d"]  # removed from the bar of a figure


class Option(NamedTuple):
    """An option or a caption of the page, which is shown for some choices."""

    text: str
    when: Sequence[When] = ({},)  # one of them must hold
    value: str = ""  # of an option


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


def text(name: str, limit: int = 70) -> str:
    """Returns a name, cut to `limit` characters, that plotly does not read as HTML."""
    short = name if len(name) <= limit else f"{name[: limit - 1]}…"
    return html.escape(short, quote=False)


def trace(kind: str, when: When, x_index: int | None = None, **properties) -> dict:
    """Returns a trace that is shown for some choices.

    Args:
      kind: Type of the trace, such as `scatter`.
      when: Choices that show it.
      x_index: Index of its x values in `meta` of the layout, if they can be chosen.
      properties: Further properties, as plotly names them.
    """
    meta = {"when": [when]} | ({} if x_index is None else {"x": x_index})
    return {"type": kind, "meta": meta, "visible": False, **properties}


def heatmap(
    when: When, z: np.ndarray, x: Sequence[str], y: Sequence[str], unit: str, **more
) -> dict:
    """Returns the trace of a matrix with its first row on top."""
    values = {"x": x, "y": y[::-1], "z": z[::-1].tolist(), "colorbar_title_text": unit}
    gaps = {"xgap": int(len(x) <= 60), "ygap": int(len(y) <= 60)}
    return trace("heatmap", when, **values, **gaps, **more)


def as_html(div_id: str, traces: Sequence[dict], **layout) -> str:
    """Returns the HTML of a figure, without the script of plotly.

    The properties of its layout stand over those of `TEMPLATE_LAYOUT`.
    """
    from plotly import graph_objects  # imported here, as it takes a second

    data = {"heatmap": [HEATMAP], "scatter": [{"connectgaps": True}]}
    template = {"layout": TEMPLATE_LAYOUT, "data": data}
    return graph_objects.Figure(traces, layout | {"template": template}).to_html(
        config={"displaylogo": False, "modeBarButtonsToRemove": BUTTONS},
        **{"include_plotlyjs": False, "full_html": False, "div_id": div_id},
    )

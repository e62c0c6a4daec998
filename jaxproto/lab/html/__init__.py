"""Self-contained HTML reports of runs: `python -m jaxproto report WORKDIR...`.

Figures are made in Python with the traces of every choice that the controls offer. The
page contains plotly.js once, which draws them; its Content-Security-Policy forbids
requests.

The controls are HTML and `static/page.js`, not menus of plotly: the keyboard cannot
reach those, and a menu of plotly changes one figure without the others.

Figures are by plotly rather than Vega (Altair), whose script is smaller: plotly is one
wheel without binaries, hover compares all methods at a round, and the page can forbid
`eval`.

Jinja escapes text of the page, `figure.text` text of figures, and plotly writes JSON
that cannot end a script.
"""

from jaxproto.lab.html.document import Page, render_page

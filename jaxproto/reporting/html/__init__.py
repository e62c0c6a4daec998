"""Self-contained HTML reports of runs: `python -m jaxproto report WORKDIR...`.

Plotly figures are made in Python with the traces of every choice of a reader. The page
contains plotly.js once, which draws them; its Content-Security-Policy forbids requests.

The controls are HTML and `static/page.js`, not menus of plotly: those cannot be reached
by the keyboard, and a menu changes one figure without knowing the other menus.

Plotly rather than Vega (Altair), although Vega's script is smaller: plotly is one wheel
without binaries, hover compares all methods at a round, and the page can forbid `eval`.

Jinja escapes text of the page, `figure.text` text of figures, and plotly writes JSON
that cannot end a script.
"""

from jaxproto.reporting.html.document import Page, render_page
from jaxproto.reporting.html.output import check, write

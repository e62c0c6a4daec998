"""One self-contained HTML file about runs: `python -m jaxproto report WORKDIR...`.

The figures are drawn in the browser by plotly.js, whose script is inside the file; the
page asks for nothing else, and its Content-Security-Policy forbids it.

Why plotly and not Vega (Altair): its script makes a file of about 5 MB, 1.5 MB where it
is compressed on its way; Vega's script is smaller. For that the extra is one wheel
without binaries, where Altair needs a JavaScript engine to put the script inside; what
is shown and the theme change by one call from plain controls; hover compares all
methods at a round; and the page can forbid `eval`. Of the Python package nothing but
the script is used: the scripts of `static/` make figures of numbers.

Text goes through Jinja's automatic escaping, and into the figures as JSON.
"""

from jaxproto.reporting.html.document import Page, render_page
from jaxproto.reporting.html.output import check, write

__all__ = ["Page", "check", "render_page", "write"]

"""Figures as PNG files, and the colours that all pictures share.

Figures are made without pyplot, so nothing is shown and no state is shared.
"""

import contextlib
import importlib.util
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from jaxproto.data import files
from jaxproto.errors import UserError

HINT = "pictures need matplotlib: pip install 'jaxproto[plots]'"
# Okabe and Ito's palette, told apart with every kind of colour vision; then grey tones.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#000000", "#B8A800", "#7F7F7F", "#882255"),
)
DASHES = ("-", (0, (4, 1.5)), (0, (2, 1)))  # when colours run out


def look(index: int) -> dict:
    """Colour and dashes of line `index`; no two of the first 30 look alike."""
    dashes = DASHES[index // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[index % len(COLOURS)], "ls": dashes, "lw": 1.5}


def panels(figure, titles: Sequence[str]):
    """A row of axes with common scales, a title each."""
    row = figure.subplots(ncols=len(titles), squeeze=False, sharex=True, sharey=True)[0]
    for axes, title in zip(row, titles, strict=True):
        axes.set_title(title)
        axes.spines[["top", "right"]].set_visible(False)
    return row


def available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


@contextlib.contextmanager
def blank(path: str | Path, size: tuple[float, float]) -> Iterator:
    """A figure of `size` inches, written to `path` at the end.

    Raises:
      UserError: matplotlib is not installed, or the file cannot be written.
    """
    if not available():
        raise UserError(HINT)
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(
        {"font.size": 9, "axes.titlesize": 10, "savefig.dpi": 200}
    ):
        figure = Figure(size, layout="compressed")
        yield figure
        content = io.BytesIO()
        figure.savefig(content, format="png")
    files.write(path, content.getvalue())

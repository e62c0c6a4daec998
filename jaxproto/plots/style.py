"""The style of all pictures, and figures as PNG, PDF or SVG files.

Figures are made without pyplot, so nothing is shown. Threads of a process share the
style and the formula parser of matplotlib, and the cells of a sweep draw in threads of
their own. So one figure is drawn at a time.
"""

import contextlib
import importlib.util
import io
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from jaxproto.errors import UserError, choose_from
from jaxproto.io import atomic

HINT = "pictures need matplotlib: pip install 'jaxproto[plots]'"
FORMATS = (".png", ".pdf", ".svg")  # by the suffix of the file
SIZES = {"column": 3.25, "text": 6.75}  # inches: widths of a paper's columns, one, two
_TALLEST = 9.0  # inches of a picture on a page
# Okabe and Ito's palette, told apart with every kind of colour vision; then grey tones.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#000000", "#B8A800", "#7F7F7F", "#882255"),
)
DASHES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1.3, 1.3)))
MARKERS = "osD^vPX<>*"
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "legend.handlelength": 2.6,
    "figure.titlesize": 8,
    "figure.labelsize": 8,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.3,
    "lines.markersize": 3.5,
    "pdf.fonttype": 42,  # letters stay text that can be searched and edited
    "svg.fonttype": "none",
    "svg.hashsalt": "jaxproto",  # the same file each time
}
_NO_DATE = {".pdf": {"CreationDate": None}, ".svg": {"Date": None}, ".png": {}}
_size: ContextVar[str] = ContextVar("size", default="")
_drawing = threading.RLock()  # matplotlib's style and its parser are the process's


def line_style(index: int) -> dict:
    """Returns colour and dashes of a line; no two of the first 40 look alike."""
    dashes = DASHES[(index + index // len(COLOURS)) % len(DASHES)]
    return {"color": COLOURS[index % len(COLOURS)], "ls": dashes}


def marker_style(index: int, points: int) -> dict:
    """Signs along line `index`, so that it is seen where another lies upon it.

    Every second line has hollow ones, through which others are seen, and each line
    has them at other places, as far as it has points.
    """
    step = max(1, points // 6)
    hollow = {"mfc": "none", "ms": 5.5} if index % 2 else {"ms": 3.5}
    every = ((index * max(1, step // 3)) % step, step)
    return {"marker": MARKERS[index % len(MARKERS)], "markevery": every, **hollow}


def available() -> bool:
    """Returns whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


@contextlib.contextmanager
def paper_width(name: str) -> Iterator[None]:
    """Draws pictures inside the block as wide as a column or the text of a paper.

    Args:
      name: Name in `SIZES`; "" leaves every picture at the size of its content.
    """
    before = _size.set(name and choose_from("size", name, SIZES))
    try:
        yield
    finally:
        _size.reset(before)


def in_column() -> bool:
    """Returns whether pictures are as wide as one column of a paper."""
    return _size.get() == "column"


def figure_size(natural: tuple[float, float]) -> tuple[float, float]:
    """Returns inches: `natural`, or the width of the paper in the same proportions."""
    wide, high = natural
    if not _size.get():
        return natural
    width = SIZES[_size.get()]
    return width, min(max(high * min(1.0, width / wide), 2.0), _TALLEST)


def check(path: str | Path):
    """Raises UserError unless the suffix of a file names a format."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(
            f"{path} does not end in .png, .pdf or .svg: give a file that does."
        )


@contextlib.contextmanager
def new_figure(path: str | Path, size: tuple[float, float]) -> Iterator:
    """Yields a figure of `size` inches and writes it to `path` at the end.

    Raises:
      UserError: matplotlib is not installed, the suffix names no format, or the file
        cannot be written.
    """
    if not available():
        raise UserError(HINT)
    check(path)
    import matplotlib
    from matplotlib.figure import Figure

    from jaxproto.plots import fit_text

    kind = Path(path).suffix.lower()
    style: Any = {**STYLE, "savefig.dpi": 300 if _size.get() else 200}
    with _drawing, matplotlib.rc_context(style):
        figure = Figure(figure_size(size), layout="compressed")
        yield figure
        fit_text.fit_text(figure)
        content = io.BytesIO()
        figure.savefig(content, format=kind[1:], metadata=_NO_DATE[kind])
    atomic.write(path, content.getvalue())

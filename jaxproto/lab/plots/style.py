"""The style of all pictures, and figures as PNG, PDF or SVG files.

Figures are made without pyplot, so no window opens. Threads of a process share the
style and the formula parser of matplotlib, and each cell of a sweep draws in its own
thread. Therefore a lock allows one figure at a time.
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
SIZES = {"column": 3.25, "text": 6.75}  # inches: widths of one and two columns
_TALLEST = 9.0  # inches of a picture on a page
# Okabe and Ito's palette without yellow, which every kind of colour vision can
# distinguish, then three other colours.
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
_drawing = threading.RLock()  # threads share matplotlib's style and its parser


def line_style(index: int) -> dict:
    """Returns colour and dashes of a line; no two of the first 40 look alike."""
    dashes = DASHES[(index + index // len(COLOURS)) % len(DASHES)]
    return {"color": COLOURS[index % len(COLOURS)], "ls": dashes}


def marker_style(index: int, points: int) -> dict:
    """Returns markers along a line that distinguish it from lines it coincides with.

    Every second line has hollow markers, through which others are seen. Lines have
    their markers at different points, if they have enough points.
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
    """Returns inches: `natural`, or the width of the paper and a height that fits."""
    if not _size.get():
        return natural
    width, height = natural
    paper = SIZES[_size.get()]
    return paper, min(max(height * min(1.0, paper / width), 2.0), _TALLEST)


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

    kind = Path(path).suffix.lower()
    style: Any = {**STYLE, "savefig.dpi": 300 if _size.get() else 200}
    with _drawing, matplotlib.rc_context(style):
        figure = Figure(figure_size(size), layout="compressed")
        yield figure
        _wrap(figure)
        content = io.BytesIO()
        figure.savefig(content, format=kind[1:], metadata=_NO_DATE[kind])
    atomic.write(path, content.getvalue())


def _wrap(figure):
    """Breaks titles and labels of axes at the edge of the figure."""
    texts = [figure._suptitle, figure._supxlabel]
    for axes in figure.axes:
        texts += [axes.title, axes.xaxis.label, axes.yaxis.label]
    for text in filter(None, texts):
        text.set_wrap(True)

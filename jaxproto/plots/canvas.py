"""Figures as PNG files, and the colours that all pictures share.

Figures are made without pyplot, so nothing is shown and no state is shared.
"""

import contextlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from jaxproto.errors import UserError

HINT = "pictures need matplotlib: pip install 'jaxproto[plots]'"
# Okabe and Ito's palette, told apart with every kind of colour vision; then grey tones.
COLOURS = (
    *("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"),
    *("#000000", "#B8A800", "#7F7F7F", "#882255"),
)


def available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


@contextlib.contextmanager
def blank(path: str | Path, size: tuple[float, float]) -> Iterator:
    """A figure of `size` inches, written to `path` at the end.

    Raises:
      UserError: matplotlib is not installed.
    """
    if not available():
        raise UserError(HINT)
    import matplotlib
    from matplotlib.figure import Figure

    style = {"font.size": 9, "axes.titlesize": 10, "savefig.dpi": 200}
    with matplotlib.rc_context(style):
        figure = Figure(size, layout="compressed")
        yield figure
        figure.savefig(path)

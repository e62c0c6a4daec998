"""Progress lines on a terminal, and warnings that are shown once."""

import contextlib
import io
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator

from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

WIDEST = 100_000  # columns; a table takes those that it needs
UNKEPT = "Error writing persistent compilation cache entry"  # start of JAX's warning


def make_console(**options) -> Console:
    """Makes a console of the standard output; COLUMNS=0 counts as not set."""
    console = Console(**options)
    console.width = console.width or shutil.get_terminal_size().columns
    return console


def print_table(console: Console, table: Table):
    """Prints a table; where the output is no terminal, as wide as it needs."""
    if console.is_terminal or console.is_jupyter:
        console.print(table)
        return
    text = io.StringIO()
    Console(file=text, width=WIDEST).print(table)
    say(console, text.getvalue().removesuffix("\n"))


def say(console: Console, text: str):
    """Prints a line without wrapping or markup: paths may have brackets."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextlib.contextmanager
def live(
    console: Console, render: Callable[[], RenderableType]
) -> Iterator[Callable[[], None]]:
    """Draws `render()` in place on a terminal, and nothing elsewhere.

    Yields:
      A function that draws it again, for any thread.
    """
    if not console.is_interactive:
        yield lambda: None
        return
    with Live(console=console, auto_refresh=False, get_renderable=render) as shown:
        shown.refresh()
        yield shown.refresh


@contextlib.contextmanager
def progress_line(
    console: Console, doing: str, what: str, total: int
) -> Iterator[Callable[[str], None]]:
    """Shows on a terminal how many of `total` things are done; elsewhere prints a line.

    Args:
      doing: the activity, such as "compiling".
      what: the things, such as "programs".
      total: the expected number of things.

    Yields:
      A function to call with the name of each thing that is done, from any thread.
    """
    if not console.is_interactive:
        say(console, f"{doing} {total} {what}")
        yield lambda name: None
        return
    lock, count = threading.Lock(), [0]
    with console.status(f"{doing}: 0 of {total} {what}") as status:

        def done(name):
            with lock:
                count[0] += 1
                known = max(total, count[0])  # some programs are compiled again
                text = f"{doing}: {count[0]} of {known} {what} ({escape(name)})"
                status.update(text)

        yield done


@contextlib.contextmanager
def warn_uncached_once(console: Console) -> Iterator[None]:
    """Prints once, not for every program, that compiled programs cannot be kept."""
    original, lines = warnings.showwarning, list[str]()

    def show(message, *args, **kwargs):
        if not str(message).startswith(UNKEPT):
            original(message, *args, **kwargs)
        elif not lines:
            why = str(message).rpartition(": ")[2]
            lines.append(f"compiled programs cannot be kept for other runs ({why})")

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = original
        for line in lines:
            say(console, line)

"""Errors for the user, and helpers that write their messages."""

import difflib
import functools
import inspect
import re
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Mapping

from jaxproto.origin import in_library, in_package

LONGEST = 200  # characters of a value in a message
HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # categories: controls, surrogates, line ends
DIRECTION = {*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}


class UserError(ValueError):
    """An invalid input of the user; the message says what to change.

    Unprintable characters of the message, such as those in file names, are escaped.
    """

    def __init__(self, message: str):
        super().__init__("\n".join(map(escape_unprintable, message.split("\n"))))


def first_unprintable(text: str) -> str:
    """Returns the first unprintable character, escaped, or "" without one.

    Control characters, line ends, changes of the writing direction and surrogates,
    which no encoding can write, are unprintable.
    """
    bad = (c for c in text if unicodedata.category(c) in HIDDEN or c in DIRECTION)
    return next((ascii(c)[1:-1] for c in bad), "")


def escape_unprintable(text: str) -> str:
    """Returns the text with unprintable characters escaped."""
    return "".join(ascii(c)[1:-1] if first_unprintable(c) else c for c in text)


def shorten(value) -> str:
    """Returns the repr of a value, without its middle if that is long."""
    text, half = repr(value), LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}...{text[-half:]}"


def group_by_reason(reasons: Mapping[str, str]) -> list[str]:
    """Returns a line per reason, with the names that share it.

    Args:
      reasons: name -> reason, which may begin with the name.
    """
    groups: dict[str, list[str]] = {}
    for name, why in reasons.items():
        groups.setdefault(why.removeprefix(f"{name} "), []).append(name)
    return [f"{', '.join(names)}: {why}" for why, names in groups.items()]


def first_few(names: Iterable, most: int = 5) -> str:
    """Returns the first names, and their number if there are more."""
    names = [str(name) for name in names]
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def choose_from(kind: str, name: str, options: Iterable[str]) -> str:
    """Returns `name` if it is one of `options`.

    Raises:
      UserError: it is not; the message has the nearest name and all options.
    """
    options = sorted(options)
    if name in options:
        return name
    near = difflib.get_close_matches(shorten(name).strip("'"), options, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    listed = ", ".join(options) or "none"
    raise UserError(f"unknown {kind} {shorten(name)}.{hint} There are: {listed}.")


def describe_failure(error: BaseException) -> str:
    """Returns an exception of a user's code as one line, with its place."""
    text = " ".join(f"{error}".split()) or "without a message"
    text = re.sub(r"\w+Tracer\b", "jax.Array", text)  # of tracing
    if len(text) > LONGEST:
        text = text[:LONGEST].rpartition(" ")[0] + " ..."
    return f"{type(error).__name__}: {text}{failing_line(error)}"


def failing_line(error: BaseException) -> str:
    """Returns the last line of a user's code that an exception crossed; "" if none."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_users(f)]
    return f", line {frames[-1].lineno} of {frames[-1].filename}" if frames else ""


def _is_users(frame: traceback.FrameSummary) -> bool:
    """Returns whether a frame is neither of this package nor of a library."""
    file = frame.filename
    return not (in_package(file) or in_library(file) or file.startswith("<"))


def place_of(f: Callable) -> str:
    """Returns file and line of a function, for messages."""
    while isinstance(f, functools.partial):
        f = f.func
    try:
        f = inspect.unwrap(f)
        return f"{inspect.getsourcefile(f)}, line {inspect.getsourcelines(f)[1]}"
    except (OSError, TypeError):
        return f"{f!r}"

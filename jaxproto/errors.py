"""Errors for the user, and helpers that write their messages."""

import difflib
import functools
import inspect
import re
import traceback
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from jaxproto.origin import in_library, in_package

LONGEST = 200  # characters of a value in a message
HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # categories: controls, surrogates, line ends
DIRECTION = {*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}


class UserError(ValueError):
    """An invalid input of the user; the message says what to change.

    Unprintable characters of the message, such as those in file names, are escaped.

    Attributes:
      advice: alternatives that the message names, each of which leads further: field
        of the configuration -> value. Tests follow them.
    """

    def __init__(self, message: str, *, advice: Iterable[Mapping[str, Any]] = ()):
        self.advice = tuple(map(dict, advice))
        super().__init__("\n".join(map(escape_unprintable, message.split("\n"))))


class ExplainedError(Exception):
    """A fault in a user's code whose text is a sentence without a subject."""


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


def choose_from(
    kind: str,
    name: str,
    options: Iterable[str],
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Returns `name` if it is one of `options`.

    Args:
      elsewhere: similar words -> what is meant, beside `options`.

    Raises:
      UserError: it is not; the message has the nearest name and all options.
    """
    options = sorted(options)
    if name in options:
        return name
    meant = {**elsewhere, **{option: option for option in options}}
    near = difflib.get_close_matches(shorten(name).strip("'"), meant, n=1)
    hint = f" Did you mean {meant[near[0]]!r}?" if near else ""
    listed = ", ".join(options) or "none"
    raise UserError(f"unknown {kind} {shorten(name)}.{hint} There are: {listed}.")


def describe_failure(error: BaseException) -> str:
    """Returns an exception of a user's code as one line, with its place."""
    return f"{_explain(error) or _type_and_text(error)}{failing_line(error)}"


def _type_and_text(error: BaseException) -> str:
    text = message_of(error) or "without a message"
    text = re.sub(r"\w+Tracer\b", "jax.Array", text)  # of tracing
    if len(text) > LONGEST:
        text = text[:LONGEST].rpartition(" ")[0] + " ..."
    return f"{type(error).__name__}: {text}"


def _explain(error: BaseException) -> str:
    """Returns a sentence with the way out for an error of tracing; "" for others."""
    from jax import errors  # the command line without a command starts without JAX

    needs = "it needs the value of a traced array in Python, as"
    if isinstance(error, ExplainedError):
        return str(error)
    if isinstance(error, errors.UnexpectedTracerError):
        return _explain_leak(f"{error}")
    if isinstance(error, errors.TracerArrayConversionError):
        return f"{needs} NumPy does; use jax.numpy"
    if isinstance(error, errors.TracerIntegerConversionError):
        return f"{needs} `range` does; use jax.lax.fori_loop, or jax.numpy's indexing"
    if isinstance(error, errors.NonConcreteBooleanIndexError):
        return f"{needs} a[mask] does; use jnp.where(mask, a, 0), or multiply by mask"
    if isinstance(error, errors.ConcretizationTypeError):
        return f"{needs} in an `if`; use jnp.where or jax.lax.cond"
    return ""


def _explain_leak(text: str) -> str:
    """Returns a sentence for the text of an `UnexpectedTracerError`."""
    keeper = re.search(r"when the value leaked was ([a-z]\w*) at ", text)
    frames = re.findall(r"^(\S.*?):(\d+)(?::\d+)? \(.+\)$", text, re.MULTILINE)
    own = [frame for frame in frames if _is_users_file(frame[0])]
    keeps = f"{keeper[1] if keeper else 'a function'} keeps for later"
    keeps += f" (line {own[-1][1]} of {own[-1][0]})" if own else ""
    return (
        f"it uses a traced value that {keeps}; return it in the upload, the memory or "
        "LossAux.sums instead"
    )


def message_of(error: BaseException) -> str:
    """Returns the message of an exception of a user's code as one line."""
    try:
        return " ".join(f"{error}".split())
    except Exception:  # a user's `__str__` may raise anything
        return "its message cannot be read"


def reason_of(error: BaseException) -> str:
    """Returns why a library failed, without addresses of objects."""
    text = re.sub(r" *<[^<>]* at 0x[0-9a-fA-F]+>", "", message_of(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def failing_line(error: BaseException) -> str:
    """Returns the last line of a user's code that an exception crossed; "" if none."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if _is_users_file(frame.filename)]
    return f", line {own[-1].lineno} of {own[-1].filename}" if own else ""


def _is_users_file(file: str) -> bool:
    """Returns whether a file is neither of this package nor of a library."""
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

"""Errors in the user's words, raised before training."""

import difflib
import unicodedata
from collections.abc import Iterable, Mapping

LONGEST = 200  # characters of a value in a message
HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # categories: controls, surrogates, line ends
TURNS = {*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}  # of direction


class UserError(ValueError):
    """Something the user gave cannot work; the message says what to change.

    What cannot be printed is escaped in it: names of files and labels are the user's.
    """

    def __init__(self, message: str):
        super().__init__("\n".join(map(escape_unprintable, message.split("\n"))))


def first_unprintable(text: str) -> str:
    """The first character that cannot be printed, escaped, or "" without one.

    Control codes and line ends, what turns the direction of writing, and surrogates,
    which no encoding can write.
    """
    bad = (c for c in text if unicodedata.category(c) in HIDDEN or c in TURNS)
    return next((ascii(c)[1:-1] for c in bad), "")


def escape_unprintable(text: str) -> str:
    """The text with escapes in place of characters that cannot be printed."""
    return "".join(ascii(c)[1:-1] if first_unprintable(c) else c for c in text)


def shorten(value) -> str:
    """How Python writes a value, without the middle if that is long."""
    text, half = repr(value), LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}...{text[-half:]}"


def group_by_reason(reasons: Mapping[str, str]) -> list[str]:
    """A line for each reason, with all that have it; reasons may begin with the name.

    Args:
      reasons: name -> why it cannot be.
    """
    having: dict[str, list[str]] = {}
    for name, why in reasons.items():
        having.setdefault(why.removeprefix(f"{name} "), []).append(name)
    return [f"{', '.join(names)}: {why}" for why, names in having.items()]


def first_few(names: Iterable, most: int = 5) -> str:
    """The first names, and how many there are if that is not all."""
    names = [str(name) for name in names]
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def choose_from(kind: str, name: str, options: Iterable[str]) -> str:
    """Returns `name` if it is one of `options`.

    Raises:
      UserError: names the thing, the nearest spelling and all that exists.
    """
    options = sorted(options)
    if name in options:
        return name
    near = difflib.get_close_matches(shorten(name).strip("'"), options, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UserError(
        f"unknown {kind} {shorten(name)}.{hint} There are: {', '.join(options)}."
    )

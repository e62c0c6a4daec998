"""Errors for the user, and the formatting of their messages."""

import difflib
import unicodedata
from collections.abc import Iterable, Mapping

LONGEST = 200  # characters of a value in a message
HIDDEN = {"Cc", "Cs", "Zl", "Zp"}  # categories: controls, surrogates, line ends
TURNS = {*"\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"}  # of direction


class UserError(ValueError):
    """Error of the user's input, with advice on what to change.

    Characters of names and labels that cannot be printed are escaped.
    """

    def __init__(self, message: str):
        super().__init__("\n".join(map(escape_unprintable, message.split("\n"))))


def first_unprintable(text: str) -> str:
    """Returns the first character that cannot be printed, escaped; "" if none.

    These are control codes, line ends, marks of writing direction, and surrogates.
    """
    bad = (c for c in text if unicodedata.category(c) in HIDDEN or c in TURNS)
    return next((ascii(c)[1:-1] for c in bad), "")


def escape_unprintable(text: str) -> str:
    """Escapes the characters of a text that cannot be printed."""
    return "".join(ascii(c)[1:-1] if first_unprintable(c) else c for c in text)


def shorten(value) -> str:
    """Formats a value by `repr`, without the middle if that is long."""
    text, half = repr(value), LONGEST // 2
    return text if len(text) <= LONGEST else f"{text[:half]}...{text[-half:]}"


def group_by_reason(reasons: Mapping[str, str]) -> list[str]:
    """Groups names by reason, a line per reason.

    Args:
      reasons: name -> reason, which may begin with the name.
    """
    having: dict[str, list[str]] = {}
    for name, why in reasons.items():
        having.setdefault(why.removeprefix(f"{name} "), []).append(name)
    return [f"{', '.join(names)}: {why}" for why, names in having.items()]


def first_few(names: Iterable, most: int = 5) -> str:
    """Lists the first names, and the number of further ones."""
    names = [str(name) for name in names]
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def choose_from(kind: str, name: str, options: Iterable[str]) -> str:
    """Returns `name` if it is one of `options`.

    Raises:
      UserError: it is not; has the nearest spelling and all options.
    """
    options = sorted(options)
    if name in options:
        return name
    near = difflib.get_close_matches(shorten(name).strip("'"), options, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UserError(
        f"unknown {kind} {shorten(name)}.{hint} There are: {', '.join(options)}."
    )

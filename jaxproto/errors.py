"""Errors in the user's words, raised before training."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something the user gave cannot work; the message says what to change."""


def some(names: Iterable, most: int = 5) -> str:
    """The first names, and how many there are if that is not all."""
    names = [str(name) for name in names]
    more = f", ... ({len(names)} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def pick(kind: str, name: str, options: Iterable[str]) -> str:
    """Returns `name` if it is one of `options`.

    Raises:
      UserError: names the thing, the nearest spelling and all that exists.
    """
    options = sorted(options)
    if name in options:
        return name
    near = difflib.get_close_matches(str(name), options, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise UserError(f"unknown {kind} {name!r}.{hint} There are: {', '.join(options)}.")

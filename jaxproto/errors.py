"""Errors in the user's words, raised before training."""

import difflib
from collections.abc import Iterable


class UserError(ValueError):
    """Something the user gave cannot work; the message says what to change."""


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

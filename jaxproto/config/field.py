"""Field of a configuration: default, meaning, allowed values, use and rules."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from jaxproto.core.hyperparameters import STATIC, Range
from jaxproto.errors import choose_from

OFF = "off"  # of a field that switches something on
TYPES = {bool: "True or False", int: "a whole number", float: "a number", str: "a text"}
TRACED, UNUSED = "argument", "unused"  # use by compiled programs, besides STATIC
NEVER, MORE = "no", "to more, unless a round depends on it"  # may change on resume
STOPPED, MOVED = "after an early stop", "only in `jaxproto.load` and on nodes"
FREE = "yes"


class Names:
    """The names that a field can have, read from registries at each iteration."""

    def __init__(self, *parts: Iterable[str], only: bool = True, kind: str = ""):
        """Keeps registries or lists of names.

        Args:
          parts: registries, or lists of names.
          only: False allows other values too; the code that reads them checks them.
          kind: name of the field in messages; "" is its path.
        """
        self._parts, self.only, self.kind = parts, only, kind

    def __iter__(self) -> Iterator[str]:
        """Returns the names of all parts, in their order."""
        return itertools.chain(*self._parts)

    def describe(self, kind: str) -> str:
        """Returns the names, or the type of the values without names."""
        return " | ".join(self) or kind

    def check(self, path: str, value: str):
        """Raises UserError for a value that is none of the names."""
        if self.only:
            choose_from(self.kind or path, value, self)


ANY = Names(only=False)  # every value of the default's type


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of a configuration."""

    default: Any
    help: str
    allowed: Range | Names = ANY
    program: str = STATIC  # how compiled programs use it; a TRACED one is a float
    names_run: bool = True  # a change shows in the name of a default folder
    compared: bool = True  # False: `compare` ignores it
    resume: str = NEVER  # when a run may resume with another value

    @property
    def words(self) -> str:
        """Returns the allowed values in words."""
        return self.allowed.describe(TYPES[type(self.default)])


NON_NEGATIVE = Range("0 (off) or more", 0)
BETWEEN_0_AND_1 = Range("above 0 and below 1", 0, 1, "()")

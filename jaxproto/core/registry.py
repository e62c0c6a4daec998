"""Registry of the values that a configuration names."""

from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import TypeVar

from jaxproto.errors import UserError, shorten

V = TypeVar("V")


class Registry(MutableMapping[str, V]):
    """Mapping from names to values of one kind; the library's own names are fixed.

    Users add entries and replace their own ones. An entry under a built-in name would
    change every configuration that names it.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, V],
        reserved: Iterable = (),
        hint: str = "",
    ):
        """Stores the built-in entries.

        Args:
          kind: Noun of an entry, for messages.
          entries: Built-in entries.
          reserved: Names with a meaning of their own, without an entry.
          hint: Sentence about the entries, for messages.
        """
        self.kind, self._hint = kind, hint
        self._entries = dict(entries)
        self._builtin: Mapping[str, object] = dict.fromkeys(reserved) | self._entries

    def is_builtin(self, name: str) -> bool:
        """Returns whether a name is the library's own."""
        return name in self._builtin

    def __setitem__(self, name: str, value: V):
        """Adds an entry.

        Raises:
          UserError: Another value has this name and is the library's own, or it is no
            function where all others are.
        """
        if self.is_builtin(name) and self._builtin[name] is not value:
            raise UserError(
                f"{self.kind} {shorten(name)} is the library's own and cannot be "
                f"replaced; choose another name, such as {shorten(f'my_{name}')}."
            )
        functions = self and all(map(callable, self.values()))
        if functions and not callable(value):
            text = (
                f"{self.kind} {shorten(name)} is {shorten(value)}; it must be a "
                "function, as the library's own are, and not what it returns. "
            )
            raise UserError((text + self._hint).rstrip())
        self._entries[name] = value

    def __getitem__(self, name: str) -> V:
        """Returns the value of a name."""
        return self._entries[name]

    def __delitem__(self, name: str):
        """Removes an entry."""
        del self._entries[name]

    def __iter__(self) -> Iterator[str]:
        """Returns the names in the order of their registration."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Returns the number of entries."""
        return len(self._entries)

    def __repr__(self) -> str:
        """Returns the kind and the names."""
        return f"Registry({self.kind}: {', '.join(self)})"

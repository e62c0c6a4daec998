"""Registry of the values that a configuration names."""

import functools
import pkgutil
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from importlib import metadata
from typing import Any, TypeVar

from jaxproto.errors import UserError, shorten

V = TypeVar("V")


class Place(str):
    """Where a value is, as "module:name"; it is imported at its first use."""


def places(module: str, *names: str, **renamed: str) -> dict[str, Any]:
    """Returns name -> `Place` of values of one module.

    Args:
      module: Path below `jaxproto`, such as "methods.fedproto".
      *names: Names that are also those in the module.
      **renamed: Names, with those in the module.
    """
    each = {name: name for name in names} | renamed
    return {name: Place(f"jaxproto.{module}:{inside}") for name, inside in each.items()}


_entry_points = functools.cache(metadata.entry_points)


class Registry(MutableMapping[str, V]):
    """Mapping from names to values of one kind; the library's own names are fixed.

    Users add entries and replace their own ones. An entry under a built-in name would
    change every configuration that names it. Installed packages add entries by entry
    points. An entry may be a `Place`, which is imported at its first use.
    """

    def __init__(
        self,
        kind: str,
        entries: Mapping[str, V | Place],
        reserved: Iterable = (),
        hint: str = "",
        group: str = "",
        install: str = "",
    ):
        """Stores the built-in entries, and those of installed packages.

        Args:
          kind: Noun of an entry, for messages.
          entries: Built-in entries.
          reserved: Names with a meaning of their own, without an entry.
          hint: Sentence about the entries, for messages.
          group: Group of the entry points `NAME = "module:value"` of packages.
          install: Command that installs what a built-in entry imports, with `{}` for
            its name.
        """
        self.kind, self._hint, self._install = kind, hint, install
        self._entries: dict[str, Any] = dict(entries)
        self._builtin: dict[str, Any] = dict.fromkeys(reserved) | self._entries
        for point in _entry_points().select(group=group) if group else ():
            self._entries.setdefault(point.name, Place(point.value))

    def is_builtin(self, name: str) -> bool:
        """Returns whether a name is the library's own."""
        return name in self._builtin

    def added(self) -> list[str]:
        """Returns the names that are not the library's own."""
        return [name for name in self._entries if name not in self._builtin]

    def imported(self) -> list[str]:
        """Returns the names whose values are imported."""
        return [k for k, v in self._entries.items() if not isinstance(v, Place)]

    def __setitem__(self, name: str, value: V):
        """Adds an entry.

        Raises:
          UserError: Another value has this name and is the library's own, or it is no
            function where the others are.
        """
        if self.is_builtin(name) and value is not self._own(name):
            raise UserError(
                f"{self.kind} {shorten(name)} is the library's own and cannot be "
                f"replaced; choose another name, such as {shorten(f'my_{name}')}."
            )
        functions = self and callable(next(iter(self.values())))
        if functions and not callable(value) and not isinstance(value, Place):
            text = (
                f"{self.kind} {shorten(name)} is {shorten(value)}; it must be a "
                "function, as the library's own are, and not what it returns. "
            )
            raise UserError((text + self._hint).rstrip())
        self._entries[name] = value

    def _own(self, name: str):
        """Returns the library's own value of a name; None if it has no entry."""
        if self._builtin[name] is self._entries.get(name):
            self.get(name)  # which imports it
        return self._builtin[name]

    def __getitem__(self, name: str) -> V:
        """Returns the value of a name.

        Raises:
          UserError: Its module cannot be imported.
        """
        value = place = self._entries[name]
        if isinstance(place, Place):
            try:
                value = self._entries[name] = pkgutil.resolve_name(place)
            except (ImportError, AttributeError) as e:
                install = self._install.format(name) if self.is_builtin(name) else ""
                raise UserError(
                    f"{self.kind} {shorten(name)} cannot be used: "
                    f"{' '.join(str(e).split())} ({place}). {install}".rstrip()
                ) from e
            if self._builtin.get(name) is place:
                self._builtin[name] = value
        return value

    def __delitem__(self, name: str):
        """Removes an entry."""
        del self._entries[name]

    def __contains__(self, name: object) -> bool:
        """Returns whether there is an entry, without an import."""
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        """Returns the names in the order of their registration."""
        return iter(self._entries)

    def __len__(self) -> int:
        """Returns the number of entries."""
        return len(self._entries)

    def __repr__(self) -> str:
        """Returns the kind and the names."""
        return f"Registry({self.kind}: {', '.join(self)})"

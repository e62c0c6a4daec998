"""Code and values of the user among those that a configuration selects by name.

`registries` has the registries from which names of a configuration select, except that
of callbacks. An entry is the user's if it is not the library's own, or refers to code
outside the package.
"""

import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ml_collections

from jaxproto import models
from jaxproto.config import code_digest
from jaxproto.config.fields import flatten
from jaxproto.core import register
from jaxproto.core.registry import Registry
from jaxproto.methods.options import DERIVED_ARGUMENTS, OPTIONS
from jaxproto.origin import file_of, in_package

PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"


class Entry(NamedTuple):
    """An entry of a registry that is the user's."""

    kind: str
    name: str
    value: Any
    digest: str


def registries() -> dict[str, Mapping[str, Any]]:
    """Returns all registries of functions and values, by the kind of their entries."""
    tables = [register.table(kind) for kind in register.TABLES if kind != "writer"]
    options = {f"value of method.{key}": table for key, table in OPTIONS.items()}
    return {**{table.kind: table for table in tables}, **options}


def entries(names: set[str] | None = None) -> Iterator[Entry]:
    """Yields the user's entries; with `names`, those that the names select."""
    tables = registries()
    added = {kind: {*_added(table)} for kind, table in tables.items()}
    named: dict[str, list] = {}
    for kind, table in tables.items():
        for name in added[kind]:
            named.setdefault(name, []).append(table[name])
    for kind, table in tables.items():
        for name in _selected(table, names):
            digest, is_users = code_digest.digest(table[name], tables.values(), named)
            if is_users or name in added[kind]:
                yield Entry(kind, name, table[name], digest)


def _added(table: Mapping[str, Any]) -> list[str]:
    """Returns the names that the library has not registered."""
    return table.added() if isinstance(table, Registry) else [*table]


def _selected(table: Mapping[str, Any], names: set[str] | None) -> list[str]:
    """Returns the names of entries that may be used; None: all that are imported."""
    if table is DERIVED_ARGUMENTS:  # they follow from a configuration without a name
        return [*table]
    if names is None and isinstance(table, Registry):
        return [
            *table.imported(),
            *(n for n in table.added() if n not in table.imported()),
        ]
    return [name for name in table if names is None or name in names]


def patched() -> bool:
    """Returns whether a function of this package was replaced by the user's."""
    modules = [m for n, m in sys.modules.items() if n.partition(".")[0] == "jaxproto"]
    return any(
        isinstance(f, types.FunctionType) and code_digest.is_users(f)
        for module in modules
        if in_package(file_of(module))
        for f in [*vars(module).values()]
    )


def digests(config: ml_collections.ConfigDict) -> dict[str, str]:
    """Returns the digest of each entry of the user in a run, by kind and name.

    Digests of several Python versions cannot be compared, so the name has the version.
    """
    found = entries(_names(config))
    return {f"{e.kind} {e.name!r} ({PYTHON})": e.digest for e in found}


def _names(config: ml_collections.ConfigDict) -> set[str]:
    """Returns all words of a configuration's texts, and the members of its group."""
    texts = [v for v in flatten(config).values() if isinstance(v, str)]
    texts += models.GROUPS.get(config.model.group, ())
    return {word for text in texts for word in re.split(r"[,:+=\s]+", text)}

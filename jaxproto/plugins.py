"""Tables of the optional layers: what they add to a run, which never imports them.

The module `plugin` of a layer, such as `jaxproto/lab/plugin.py`, has tables by name.
Most map a name to a text "module:function", which is imported at its first use. Without
the folder of a layer its entries are missing, and nothing else changes.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

LAYERS = [  # that are there
    name
    for name in ("lab", "nodes", "attacks", "papers", "features")
    if (Path(__file__).parent / name / "plugin.py").exists()
]


@functools.cache
def table(name: str) -> Mapping[str, Any]:
    """Returns the entries of a table, such as `COMMANDS`, of all layers."""
    joined: dict[str, Any] = {}
    for layer in LAYERS:
        module = importlib.import_module(f"jaxproto.{layer}.plugin")
        joined |= getattr(module, name, {})
    return MappingProxyType(joined)


def lazy(place: str) -> Callable:
    """Returns a function that imports "module:function" when it is called."""

    def call(*args, **kwargs):
        return pkgutil.resolve_name(place)(*args, **kwargs)

    return call

"""Code and values of the user among those that a configuration selects by name.

`registries` has the registries from which names of a configuration select, except those
of callbacks. An entry is the user's if it was added or replaced after this package was
imported, or refers to code outside the package.
"""

import re
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import ml_collections

from jaxproto import models
from jaxproto.config import code_digest, optimizers
from jaxproto.config import registries as by_name
from jaxproto.config.fields import flatten
from jaxproto.data.partitions.registry import PARTITIONS
from jaxproto.data.registry import DATASETS, FILES
from jaxproto.methods import METHODS
from jaxproto.metrics import METRICS
from jaxproto.origin import file_of, in_package, is_external
from jaxproto.round import participation
from jaxproto.wrappers.robustness import CENTRES

DERIVED = "argument of methods"  # follows from a configuration without a name in it
PYTHON = f"Python {sys.version_info.major}.{sys.version_info.minor}"


class Entry(NamedTuple):
    """An entry of a registry that is the user's."""

    kind: str
    name: str
    value: Any
    digest: str


def registries() -> dict[str, Mapping[str, Any]]:
    """Returns all registries of functions and values, by the kind of their entries."""
    return {
        "method": METHODS,
        **{f"method.{key}": options for key, options in by_name.OPTIONS.items()},
        DERIVED: by_name.DERIVED_ARGUMENTS,
        "network": models.NETS,
        "group of networks": models.GROUPS,
        "metric": METRICS,
        "sampler": participation.SAMPLERS,
        "partition": PARTITIONS,
        "data set": DATASETS,
        "reader": FILES,
        "schedule": optimizers.SCHEDULES,
        "initial key": by_name.INIT_KEYS,
        "order of examples": by_name.ORDERS,
        "treatment of short clients": by_name.SHORT_CLIENT_POLICIES,
        "optimizer state": by_name.OPTIMIZER_STATES,
        "robust centre": CENTRES,
    }


BUILTIN = {kind: dict(table) for kind, table in registries().items()}
for _name in filter(lambda name: is_external(METHODS[name]), METHODS):
    del BUILTIN["method"][_name]  # of an installed package


def entries(names: set[str] | None = None) -> Iterator[Entry]:
    """Yields the user's entries; with `names`, those that the names select."""
    tables = registries()
    rows = [(k, name, v) for k, table in tables.items() for name, v in table.items()]
    replaced = [
        (kind, name, value)
        for kind, name, value in rows
        if BUILTIN.get(kind, {}).get(name) is not value
    ]
    named: dict[str, list] = {}
    for _, name, value in replaced:
        named.setdefault(name, []).append(value)
    for kind, name, value in rows:
        if names is None or name in names or kind == DERIVED:
            digest, is_users = code_digest.digest(value, tables.values(), named)
            if is_users or (kind, name, value) in replaced:
                yield Entry(kind, name, value, digest)


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

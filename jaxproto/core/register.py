"""Decorators that give one's own parts a name in configurations.

`@jaxproto.register.method("mine")` above a function adds it to the methods; so do
`network`, `sampler`, `partition`, `schedule`, ... for the kinds in `TABLES`. Installed
packages add entries by entry points of the group `jaxproto.methods`,
`jaxproto.networks` and so on: the argument `group` of each registry.
"""

import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from jaxproto import plugins
from jaxproto.core.registry import Registry

T = TypeVar("T")
TABLES = {  # kind -> registry
    "method": "jaxproto.methods:METHODS",
    "network": "jaxproto.models.registry:NETS",
    "group": "jaxproto.models.registry:GROUPS",
    "metric": "jaxproto.metrics:METRICS",
    "sampler": "jaxproto.round.participation:SAMPLERS",
    "partition": "jaxproto.data.partitions.registry:PARTITIONS",
    "dataset": "jaxproto.data.registry:DATASETS",
    "reader": "jaxproto.data.registry:FILES",
    "schedule": "jaxproto.config.optimizers:SCHEDULES",
    "initial_key": "jaxproto.config.registries:INIT_KEYS",
    "order": "jaxproto.config.registries:ORDERS",
    "short_clients": "jaxproto.config.registries:SHORT_CLIENT_POLICIES",
    "optimizer_state": "jaxproto.config.registries:OPTIMIZER_STATES",
    "derived_argument": "jaxproto.methods.options:DERIVED_ARGUMENTS",
    "writer": "jaxproto.callbacks:WRITERS",
    **plugins.table("REGISTRIES"),
}


def table(kind: str) -> Registry[Any]:
    """Returns the registry of a kind."""
    return pkgutil.resolve_name(TABLES[kind])


DECORATORS = {"metric": "jaxproto.metrics:metric"}  # with arguments of their own


def __getattr__(kind: str) -> Callable[..., Callable[[T], T]]:
    if kind in DECORATORS:
        return pkgutil.resolve_name(DECORATORS[kind])
    if kind not in TABLES:
        raise AttributeError(
            f"there is no kind {kind!r} to register: {', '.join(TABLES)}."
        )

    def named(name: str) -> Callable[[T], T]:
        def register(value: T) -> T:
            table(kind)[name] = value
            return value

        return register

    return named


def __dir__():
    return sorted({*globals(), *TABLES})

"""List of the names that a configuration can choose from."""

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence

from jaxproto import models, plugins
from jaxproto.cli.argparse_types import Parser
from jaxproto.config import builtin, optimizers, presets
from jaxproto.data import registry
from jaxproto.data.partitions.registry import (
    PARTITIONS,
)
from jaxproto.data.registry import DATASETS
from jaxproto.methods import METHODS
from jaxproto.metrics import METRICS
from jaxproto.round import participation

KINDS: dict[str, Callable[[], Mapping[str, object]]] = {
    "methods": lambda: METHODS,
    "networks": lambda: {**_groups(), **models.NETS},
    "datasets": lambda: {**DATASETS, **registry.ABOUT, **_presets()},
    "partitions": lambda: PARTITIONS,
    "samplers": lambda: participation.SAMPLERS,
    "optimizers": lambda: dict(sorted(optimizers.optax_optimizers().items())),
    "metrics": lambda: METRICS,
    **{name: plugins.lazy(place) for name, place in plugins.table("KINDS").items()},
    "sweeps": lambda: {
        k: builtin.docstring_line(k) for k in builtin.names() if "/" in k
    },
}


def main(prog: str, arguments: Sequence[str]):
    """Prints one kind of names."""
    parser = Parser(prog=prog, description=__doc__)
    parser.add_argument("kind", choices=list(KINDS))
    names = KINDS[parser.parse_args(arguments).kind]()
    width = max(map(len, names)) + 2
    for name, entry in names.items():
        sys.stdout.write(f"{name:<{width}}{_about(entry)}".rstrip() + "\n")


def _groups() -> dict[str, str]:
    return {name: f"group: {', '.join(nets)}" for name, nets in models.GROUPS.items()}


def _presets() -> dict[str, str]:
    """Returns the presets whose name differs from that of their data set."""
    names = {k: v.get("data.name", "") for k, v in presets.DATASETS.items()}
    return {k: f"preset: {v}" for k, v in names.items() if v not in ("", k)}


def _about(entry) -> str:
    """Returns a text itself; for a function, the first line of its docstring."""
    if isinstance(entry, str):
        return entry
    function = getattr(entry, "func", entry)  # of a functools.partial
    return (inspect.getdoc(function) or "").split("\n")[0]

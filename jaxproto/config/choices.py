"""What a field of a configuration may be: names of the registries, or a range."""

from collections.abc import Iterable, Mapping

from jaxproto import models, participation, wire
from jaxproto.config import fields, optimizers, registries
from jaxproto.data import datasets
from jaxproto.data.partitions.schemes import PARTITIONS
from jaxproto.methods import METHODS

FILE = ("file:PATH",)


def registered() -> dict[str, Iterable[str]]:
    """Dotted path of a field -> the names that it can hold."""
    files = [f"{prefix}:..." for prefix in datasets.PREFIXES]
    formats = wire.FORMATS
    return {
        "method.name": METHODS,
        "model.group": [*models.GROUPS, *models.NETS],
        "model.compute_dtype": models.registry.PRECISIONS,
        "model.init": registries.INITS,
        "data.name": [*datasets.DATASETS, *files],
        "data.partition": [*PARTITIONS, *FILE],
        "participation.law": participation.SAMPLERS,
        "optimizer.name": sorted(optimizers.optimizers()),
        "optimizer.schedule": optimizers.SCHEDULES,
        "local.order": registries.ORDERS,
        "local.short": registries.SHORT,
        "local.optimizer_state": registries.OPTIMIZER_STATES,
        "wire.up": formats,
        "wire.down": formats,
        "clients_at_once": ("auto", "one", "all", "a number"),
        **{f"method.{k}": names for k, names in registries.OPTIONS.items()},
        **{f"method.{k}": models.NETS for k in registries.NETWORKS},
    }


def allowed(path: str, value, names: Mapping[str, Iterable[str]]) -> str:
    """In words, what a field may hold.

    Args:
      path: dotted, such as "optimizer.learning_rate".
      value: one that it holds.
      names: what `registered` returns.
    """
    if path in names:
        return " | ".join(names[path])
    kind = fields.TYPES[type(value)]
    _, words = fields.RANGES.get(path, (None, ""))
    return f"{kind}, {words}" if words else kind

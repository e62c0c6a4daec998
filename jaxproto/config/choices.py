"""What a field of a configuration may be: names of the registries, or a range."""

from collections.abc import Iterable, Mapping

from jaxproto import models, participation, wire
from jaxproto.config import optimizers, private, ranges, registries
from jaxproto.data import datasets
from jaxproto.data.partitions.schemes import PARTITIONS
from jaxproto.errors import UserError, pick
from jaxproto.methods import METHODS
from jaxproto.metrics import METRICS, named
from jaxproto.privacy import UNITS
from jaxproto.types import MOST, Range

FILE = ("file:PATH",)
KINDS = {"optimizer.name": "optimizer"}  # how messages call a field that is chosen
OPEN = (  # other values fit, too
    *("data.name", "data.partition", "clients_at_once"),
    *("eval.clients", "eval.metrics"),
)
STORES = ("auto", "none", "device", "host", "disk")  # of clients between rounds


def registered() -> dict[str, Iterable[str]]:
    """Dotted path of a field -> the names that it can hold."""
    files = [f"{prefix}:..." for prefix in datasets.PREFIXES]
    formats = wire.FORMATS
    return {
        "method.name": METHODS,
        "model.group": [*models.GROUPS, *models.NETS],
        "model.compute_dtype": models.registry.PRECISIONS,
        "model.init": registries.INITS,
        "data.name": [*datasets.DATASETS, datasets.NODES, *files],
        "data.partition": [*PARTITIONS, *FILE],
        "participation.law": participation.SAMPLERS,
        "optimizer.name": sorted(optimizers.optimizers()),
        "optimizer.schedule": optimizers.SCHEDULES,
        "local.order": registries.ORDERS,
        "local.short": registries.SHORT,
        "local.optimizer_state": registries.OPTIMIZER_STATES,
        "privacy.unit": UNITS,
        "wire.up": formats,
        "wire.down": formats,
        "clients_at_once": ("auto", "one", "all", "a number"),
        "clients.store": STORES,
        "eval.clients": ("all", "a number"),
        "eval.metrics": [*METRICS, "several joined by commas"],
        **{f"method.{k}": names for k, names in registries.OPTIONS.items()},
        **{f"method.{k}": models.NETS for k in registries.NETWORKS},
    }


def network_names(group: str) -> tuple[str, ...]:
    """Networks of a group, of one name, or of names joined by commas."""
    names = tuple(n.strip() for n in group.split(","))
    return models.members(names if len(names) > 1 else names[0])


def check_names(config: Mapping):
    """Raises UserError for a name that no registry has, in a flat configuration."""
    network_names(config["model.group"])
    for path, names in registered().items():
        if path in config and path not in (*OPEN, "model.group", "method.name"):
            pick(KINDS.get(path, path), config[path], names)


def evaluated(config) -> int:
    """The number of clients that evaluations ask; 0 is all.

    Raises:
      UserError: it is none.
    """
    asked = config.eval.clients
    if asked == "all":
        return 0
    if not asked.isdecimal() or not 1 <= int(asked) <= MOST:
        raise UserError(
            f"eval.clients is {asked!r}; it is all, or a number of clients such as 100."
        )
    return int(asked)


def check_together(config):
    """Raises UserError for fields that do not go together."""
    private.check(config)
    evaluated(config)
    named(config.eval.metrics)
    shared = config.data.public_share or config.data.public_source
    needs_public = config.method.get("anchors", "none") != "none"
    if config.data.name == datasets.NODES and (needs_public or shared):
        raise UserError(
            f"data.name=nodes: all examples are some node's own, but "
            f"data.public_share={config.data.public_share}, data.public_source="
            f"{config.data.public_source!r} and the anchors of "
            f"{config.method.name} ask for public ones; set these to 0, '' and none."
        )
    if needs_public and not shared:
        raise UserError(
            f"{config.method.name} with method.anchors={config.method.anchors} needs "
            "public examples, but data.public_share is 0.0 and data.public_source is "
            "empty; set data.public_share such as 0.01, or method.anchors to none."
        )


def allowed(
    path: str, value, names: Mapping[str, Iterable[str]], own: Mapping[str, Range]
) -> str:
    """In words, what a field may hold.

    Args:
      path: dotted, such as "optimizer.learning_rate".
      value: one that it holds.
      names: what `registered` returns.
      own: of the method, what `ranges.of_method` returns.
    """
    if path in names:
        return " | ".join(names[path])
    kind, there = ranges.TYPES[type(value)], {**ranges.RANGES, **own}
    return f"{kind}, {there[path].words}" if path in there else kind

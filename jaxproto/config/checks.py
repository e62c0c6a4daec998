"""Checks of a configuration before anything is made of it; old ones are completed."""

import math
from collections.abc import Iterable, Mapping

import ml_collections
import numpy as np

from jaxproto import models
from jaxproto.config import privacy
from jaxproto.config.factory_fields import all_fields
from jaxproto.config.fields import (
    FIELDS,
    TYPES,
    Field,
    Names,
    defaults,
    flatten,
    nested,
)
from jaxproto.data import registry
from jaxproto.errors import UserError, choose_from, first_unprintable, shorten
from jaxproto.hyperparameters import MAX_INT, Range
from jaxproto.methods import METHODS
from jaxproto.methods.history import OLD_DEFAULTS
from jaxproto.metrics import metrics_by_name


def upgrade_saved(given: Mapping) -> dict:
    """A configuration that was saved, flat; fields that did not exist then at default.

    Args:
      given: nested, of this version or an older one.
    """
    found = flatten(given)
    name = str(found.get("method.name", ""))
    return {**defaults(all_fields(name)), **OLD_DEFAULTS.get(name, {}), **found}


def check_keys(config: Mapping, paths: Iterable[str]):
    """Raises UserError with a did-you-mean for a dotted path that does not exist."""
    for path in paths:
        node, seen = config, "config"
        for key in path.split("."):
            if not isinstance(node, Mapping | ml_collections.ConfigDict):
                raise UserError(f"{seen!r} is a value and has no field {key!r}.")
            choose_from(f"field of {seen!r}:", key, list(node))
            node, seen = node[key], f"{seen}.{key}"


def check(config: ml_collections.ConfigDict):
    """Raises UserError for missing, unknown or impossible fields."""
    have = flatten(config)
    method = [path for path in have if path.startswith("method.")]
    check_keys(nested(dict.fromkeys([*FIELDS, *method])), have)
    missing = sorted(FIELDS.keys() - have.keys())
    if missing:
        raise UserError(
            f"the configuration lacks {', '.join(missing)}; start from "
            "jaxproto.config.default() or from a file in configs/."
        )
    name = choose_from("method", have["method.name"], METHODS)
    fields = all_fields(name)
    own = nested(fields)["method"]
    for path in method:
        choose_from(f"field of method {name!r}:", path.removeprefix("method."), own)
    for path, value in have.items():
        check_value(path, value, fields[path])
    check_together(config)


def check_value(path: str, value, field: Field):
    """Raises UserError unless a field may hold the value.

    A number must be in its range as compiled programs see it, too: they compute in
    float32; data are divided in float64.
    """
    _check_type(path, value, type(field.default))
    if isinstance(field.allowed, Range):
        _check_range(path, value, field.allowed)
    elif isinstance(field.allowed, Names) and field.allowed.only:
        choose_from(field.allowed.kind or path, value, field.allowed)


def _check_type(path: str, value, want: type):
    """Raises UserError unless `value` is of a type; a float may be whole."""
    kinds = (int, float) if want is float else want
    if not isinstance(value, kinds) or isinstance(value, bool) != (want is bool):
        raise UserError(f"{path} is {shorten(value)}; it must be {TYPES[want]}.")
    if isinstance(value, str) and (bad := first_unprintable(value)):
        raise UserError(
            f"{path} is {shorten(value)}, with the character {bad}, which cannot be "
            "printed; leave it out, and rename the file if it is one."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{path} is {value}; it must be finite.")


def _check_range(path: str, value: float, own: Range):
    """Raises UserError unless a number is in its range, rounded to float32 too."""
    if not own.fits(value):
        raise UserError(f"{path} is {shorten(value)}; it must be {own.words}.")
    if isinstance(value, int) or path.startswith("data."):
        return
    with np.errstate(over="ignore"):
        single = float(np.float32(value))
    if not (own.fits(single) and math.isfinite(single)):
        raise UserError(
            f"{path} is {value}, which is {single} as a float32; it must be "
            f"{own.words}, and finite."
        )


def network_names(group: str) -> tuple[str, ...]:
    """Networks of a group, of one name, or of names joined by commas."""
    names = tuple(n.strip() for n in group.split(","))
    return models.group_members(names if len(names) > 1 else names[0])


def num_evaluated(config) -> int:
    """The number of clients that evaluations ask; 0 is all.

    Raises:
      UserError: it is none.
    """
    asked = config.eval.clients
    if asked == "all":
        return 0
    if not asked.isdecimal() or not 1 <= int(asked) <= MAX_INT:
        raise UserError(
            f"eval.clients is {asked!r}; it is all, or a number of clients such as 100."
        )
    return int(asked)


def check_together(config):
    """Raises UserError for fields that do not go together."""
    network_names(config.model.group)
    privacy.check(config)
    num_evaluated(config)
    metrics_by_name(config.eval.metrics)
    shared = config.data.public_share or config.data.public_source
    needs_public = config.method.get("anchors", "none") != "none"
    if config.data.name == registry.NODES and (needs_public or shared):
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

"""Checks of a configuration, and the upgrade of saved ones."""

import math
from collections.abc import Iterable, Mapping

import ml_collections
from flax.traverse_util import unflatten_dict

from jaxproto import models
from jaxproto.config import features
from jaxproto.config.factory_fields import all_fields, method_fields
from jaxproto.config.field import TYPES
from jaxproto.config.fields import FIELDS, defaults, flatten
from jaxproto.config.registries import arguments
from jaxproto.core import jax_settings
from jaxproto.core.hyperparameters import MAX_INT
from jaxproto.data import registry
from jaxproto.errors import (
    UserError,
    choose_from,
    first_few,
    first_unprintable,
    shorten,
)
from jaxproto.methods import CENTRAL, METHODS
from jaxproto.methods.options import OLD_DEFAULTS
from jaxproto.metrics import metrics_by_name

SYNONYMS = {  # word of other libraries -> field
    "algorithm": "method.name",
    "dataset": "data.name",
    "feature_dim": "model.feat_dim",
    "global_rounds": "rounds",
    "join_ratio": "participation.fraction",
    "local_epochs": "local.epochs",
    "lr": "optimizer.learning_rate",
    "network": "model.group",
    "num_clients": "data.clients",
    "num_rounds": "rounds",
    "random_seed": "seed",
}


def upgrade_saved(config: Mapping) -> dict:
    """Returns a saved configuration, flat, with later fields at their defaults.

    Args:
      config: nested, of this version or an older one.
    """
    saved = flatten(config)
    name = str(saved.get("method.name", ""))
    return {**defaults(all_fields(name)), **OLD_DEFAULTS.get(name, {}), **saved}


def words_for_fields(paths: Iterable[str]) -> dict[str, str]:
    """Returns word -> path: last parts of paths, and `SYNONYMS` of existing ones."""
    known = [*paths]
    words = {path.rpartition(".")[2]: path for path in reversed(known)}
    return words | {word: path for word, path in SYNONYMS.items() if path in known}


def check_keys(config: Mapping, paths: Iterable[str]):
    """Raises UserError for a dotted path that does not exist, with a similar name."""
    for path in paths:
        node, location = config, "config"
        for key in path.split("."):
            if not isinstance(node, Mapping | ml_collections.ConfigDict):
                raise UserError(f"{location!r} is a value and has no field {key!r}.")
            if key not in node:
                meant = words_for_fields(flatten(config))
                choose_from(f"field of {location!r}:", key, list(node), meant)
            node, location = node[key], f"{location}.{key}"


def check(config: ml_collections.ConfigDict):
    """Raises UserError for missing or impossible fields, and JAX's settings."""
    jax_settings.check()
    values = flatten(config)
    method_paths = [path for path in values if path.startswith("method.")]
    others = (path for path in values if path not in method_paths)
    check_keys(unflatten_dict(FIELDS, sep="."), others)
    missing = sorted(FIELDS.keys() - values.keys())
    if missing:
        raise UserError(
            f"the configuration lacks {first_few(missing)}; start from "
            "jaxproto.config.default_config() or from a file in configs/."
        )
    name = choose_from("method", values["method.name"], METHODS)
    fields = all_fields(name)
    keys = method_fields(name)
    for path in method_paths:
        choose_from(f"field of method {name!r}:", path.removeprefix("method."), keys)
    for path, value in values.items():
        _check_type(path, value, type(fields[path].default))
        fields[path].allowed.check(path, value)
    check_together(config)


def _check_type(path: str, value, expected: type):
    """Raises UserError unless `value` is of a type; an int may stand for a float."""
    types = (int, float) if expected is float else expected
    if not isinstance(value, types) or isinstance(value, bool) != (expected is bool):
        raise UserError(f"{path} is {shorten(value)}; it must be {TYPES[expected]}.")
    if isinstance(value, str) and (bad := first_unprintable(value)):
        raise UserError(
            f"{path} is {shorten(value)}, with the character {bad}, which cannot be "
            "printed; leave it out, and rename the file if it is one."
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise UserError(f"{path} is {value}; it must be finite.")


def num_evaluated(config) -> int:
    """Returns the number of clients that are evaluated; 0 is all.

    Raises:
      UserError: `eval.clients` is neither "all" nor a positive number.
    """
    value = config.eval.clients
    if value == "all":
        return 0
    if not (value.isascii() and value.isdecimal()) or not 1 <= int(value) <= MAX_INT:
        raise UserError(
            f"eval.clients is {value!r}; it is all, or a number of clients such as 100."
        )
    return int(value)


def check_together(config):
    """Raises UserError for values that exclude each other."""
    models.group_members(config.model.group)
    features.check(config)
    num_evaluated(config)
    metrics_by_name(config.eval.metrics)
    has_public = config.data.public_share or config.data.public_source
    needs_public = "public" in arguments(METHODS[config.method.name])
    needs_public |= config.method.get("anchors", "none") != "none"
    if config.data.name == registry.NODES and (needs_public or has_public):
        raise UserError(
            f"data.name=nodes: every example belongs to a node, but "
            f"data.public_share={config.data.public_share}, data.public_source="
            f"{config.data.public_source!r} and {config.method.name} need public ones; "
            "set these to 0 and '', method.anchors to none or another method."
        )
    if config.data.name == registry.NODES and config.data.tokens:
        raise UserError(
            f"data.tokens is {config.data.tokens!r}, but the nodes of data.name=nodes "
            "agree on their vocabulary; leave it empty."
        )
    moves_examples = config.data.validation_share or config.data.centralised
    if config.data.name == registry.NODES and moves_examples:
        raise UserError(
            "data.name=nodes: nodes keep their own training and test examples; set "
            "data.validation_share to 0 and data.centralised to False.",
            advice=[{"data.validation_share": 0.0, "data.centralised": False}],
        )
    if config.data.centralised and config.method.name != CENTRAL:
        raise UserError(
            f"data.centralised leaves one client to train, but {config.method.name} "
            f"trains clients together; use configs/{CENTRAL}.py:DATASET,centralised."
        )
    if needs_public and not has_public:
        raise UserError(
            f"{config.method.name} needs public examples, but data.public_share is 0.0 "
            "and data.public_source is empty; set data.public_share such as 0.01, or "
            "method.anchors to none if the method has it.",
            advice=[{"data.public_share": 0.01}],
        )

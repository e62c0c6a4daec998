"""Fields of a configuration that are arguments of its method's factory.

An argument is a field if its default is a bool, number or text. Its range is that of
its annotation; its meaning is under "Args:" of the factory's docstring, or in `HELP`.
Compiled programs take a float as an argument unless it is annotated with `STATIC`.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

import ml_collections
from flax.traverse_util import unflatten_dict

from jaxproto import models
from jaxproto.config.field import ANY, TRACED, Field, Names
from jaxproto.config.fields import FIELDS, defaults
from jaxproto.config.registries import annotations, arguments, plain_arguments
from jaxproto.config.typed import make_configuration
from jaxproto.core.hyperparameters import STATIC, Range
from jaxproto.errors import UserError, choose_from, shorten
from jaxproto.methods import METHODS
from jaxproto.methods.options import INHERITED_FIELDS, NETWORKS, OPTIONS
from jaxproto.origin import is_external

HELP = {  # argument of several factories that not all of them explain -> its meaning
    "lam": "weight of the pull towards prototypes",
    "reg": "distance between features and prototypes in the pull",
    "collect": "when a client computes its prototypes",
    "aggregate": "mean of a class over clients, over all examples, or N Eq. 3",
    "on_server": "classes that no client reported: no prototype, or the last one",
    "server_epochs": "epochs of the server's training",
    "server_rate": "learning rate of the server's training",
    "server_batch": "prototypes per step of the server's training; 0: local.batch_size",
    "base": "method that the sparse prototypes extend",
    "s": "coordinates of a prototype that are uploaded; 0: a tenth of model.feat_dim",
    "masks": "choice of the coordinates that a class keeps",
    "mask_seed": "seed of random masks",
    "scaling": "scaling of uploads by class counts",
    "compare": "compare features with the whole prototype, or on its mask",
    "statistics": "statistics of BatchNorm: local to a client, or averaged",
    "aux": "network that clients exchange",
}


def all_fields(method: str) -> dict[str, Field]:
    """Returns every field of a configuration of a method, by its dotted path.

    If there is no such method, these are the fields that all methods share.
    """
    if method not in METHODS:
        return FIELDS
    name = dataclasses.replace(FIELDS["method.name"], default=method)
    fields = {"name": name, **_factory_fields(METHODS[method])}
    return {**FIELDS, **{f"method.{key}": field for key, field in fields.items()}}


def builtin_field(method: str, path: str) -> Field | None:
    """Returns a field of a built-in method; None for methods of users."""
    known = not is_external(METHODS.get(method))
    return all_fields(method).get(path) if known else None


def default_config(method: str = "") -> ml_collections.ConfigDict:
    """Returns the configuration that has every field at its default.

    Args:
      method: Name of the method; "" leaves out the fields of a method.

    Raises:
      UserError: There is no such method.
    """
    if method:
        choose_from("method", method, METHODS)
    fields = defaults(all_fields(method))
    return make_configuration(unflatten_dict(fields, sep="."))


def method_fields(name: str) -> dict:
    """Returns a method's hyper-parameters and their defaults."""
    return default_config(name).method.to_dict()


def _factory_fields(factory: Callable) -> dict[str, Field]:
    """Returns the fields of a factory by the names of its arguments."""
    fields, flat = {}, arguments(factory)  # which refuses what is no function
    metadata, plain = annotations(factory), plain_arguments(factory)
    if "name" in plain:
        raise UserError(
            "an argument of a method's factory is called 'name', which is the field of "
            "the method's name; call it otherwise."
        )
    for key, default in flat.items():
        option = "" if key in plain else key
        if key not in plain:
            _check_default(key, default)
        value, allowed = _value(option, default), _allowed(option, metadata[key])
        if isinstance(value, bool | int | float | str):
            traced = type(value) is float and STATIC not in metadata[key]
            texts = [HELP.get(key, ""), documented_argument(factory, key)]
            text = next(filter(None, texts[::-1] if key in plain else texts), "")
            fields[key] = Field(value, text, allowed, TRACED if traced else STATIC)
    return fields


def _check_default(key: str, default: Any):
    """Raises UserError for a default that would be no field without a word."""
    kind = type(default)
    if kind in (list, tuple, dict, set, frozenset) or hasattr(default, "dtype"):
        raise UserError(
            f"argument {key!r} of a method's factory has the default "
            f"{shorten(default)}, of type {kind.__name__}: fields are numbers, texts "
            "and flags. Give each number an argument of its own, take a text and "
            "split it in the factory, or use a constant outside the factory."
        )


def _value(key: str, default: Any):
    """Returns the value of a field for an argument's default."""
    if key in OPTIONS:
        return next((name for name, f in OPTIONS[key].items() if f is default), None)
    return 0 if key in INHERITED_FIELDS else NETWORKS.get(key, default)


def _allowed(key: str, metadata: Iterable) -> Range | Names:
    """Returns the names or the range of an argument in a configuration."""
    if key in OPTIONS:
        return Names(OPTIONS[key])
    if key in NETWORKS:
        return Names(models.NETS)
    allowed = next((m for m in metadata if isinstance(m, Range)), None)
    if allowed is None:
        return ANY
    if key not in INHERITED_FIELDS:
        return allowed
    words = f"0 (that of {INHERITED_FIELDS[key]}) or {allowed.words}"
    return dataclasses.replace(allowed, words=words, low=0)


def documented_argument(factory: Callable, name: str) -> str:
    """Returns the "Args:" entry of an argument in a docstring; "" without one."""
    text = inspect.cleandoc(factory.__doc__ or "").partition("Args:\n")[2]
    entry = rf"^  (?:\w+, )*{name}(?:, \w+)*: (.*(?:\n    .*)*)"
    match = re.search(entry, text, re.MULTILINE)
    return " ".join(match[1].split()).removesuffix(".") if match else ""

"""Fields of a configuration that its method declares: arguments of a factory.

An argument with a default that a configuration can hold is a field. Its range is that
of its annotation, its meaning is in `HELP` or under "Args:" of the factory's docstring,
and compiled programs take a float as an argument unless it is annotated with `STATIC`.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterable
from typing import Any

from jaxproto import models
from jaxproto.config.fields import FIELDS, TRACED, Field, Names, defaults, nested
from jaxproto.config.registries import annotations, arguments, default_name
from jaxproto.hyperparameters import STATIC, Range
from jaxproto.methods import METHODS
from jaxproto.methods.history import FIRST_KEYS
from jaxproto.methods.options import INHERITED_FIELDS, NETWORKS, OPTIONS

HELP = {  # hyper-parameter -> meaning, the same in every method that has it
    "lam": "weight of the pull towards prototypes",
    "reg": "distance of that pull",
    "pull": "distance of that pull",
    "collect": "when a client computes its prototypes",
    "aggregate": "mean over clients of a class, or over all of its examples",
    "upscale": "gamma, factor of the global prototypes that clients receive",
    "on_server": "classes that nobody reported: without prototype, or the last one",
    "alignment": "of global prototypes on the sphere",
    "budget": "share of the adapter's coordinates that are uploaded",
    "adapter_dim": "width of the adapter and of its prototypes",
    "anchors": "external prototypes of public examples, or none",
    "tau": "margin between prototypes at most",
    "server_epochs": "of the server's training",
    "server_rate": "learning rate of the server's training",
    "server_batch": "prototypes per step of the server's training; 0: local.batch_size",
    "base": "method that the sparse prototypes extend",
    "s": "coordinates of a prototype that are sent; 0: a tenth of model.feat_dim",
    "masks": "which coordinates of a class are kept",
    "mask_seed": "of random masks",
    "scaling": "of uploads by class counts",
    "mu": "TinyProto: scale of class counts, 0: 0.9 C / num_examples; else the weight "
    "of the proximal term",
    "num_examples": "training examples in all; 0: as divided",
    "compare": "features with the whole prototype, or on its mask",
    "distill": "weight of the pull for each class and client",
    "statistics": "of BatchNorm: each client's own, or averaged",
    "server_momentum": "of the server's update (gmf)",
    "rho": "share of a class prototype that is kept at an update",
    "scale": "factor of the cosine similarities at the start",
    "variance": "weight of the classifier's variance term",
    "uniformity": "weight of the features' uniformity term",
    "virtual": "weight of the virtual examples' loss",
    "align": "weight of the contrastive term over real and virtual examples",
    "contrast": "weight of the contrastive term over virtual examples alone",
    "virtual_classes": "of virtual examples; 0: as many as the data have",
    "images": "virtual examples per class",
    "virtual_seed": "of virtual examples",
    "stored": "virtual images are cut to [0, 1] and normalised, as the released files",
    "q": "probability of a snapshot round, which samples `fraction` of the clients",
    "fraction": "of the clients, in a snapshot round",
    "pace": "of q over the rounds",
    "gamma": "how strongly q adapts",
    "aux": "network that is exchanged",
    "alpha": "weight of a client's own loss",
    "beta": "weight of the exchanged network's own loss",
    "clip": "largest norm of the gradient",
    "target": "of distillation between two networks: whether gradients pass",
    "energy_start": "share of singular values' energy that is sent in round 1",
    "energy_end": "the same in the last round",
    "distance": "between logits and the mean logits of a class",
}


def all_fields(method: str) -> dict[str, Field]:
    """Returns every field of a configuration of a method, by its dotted path.

    Those that all methods share, if there is no such method.
    """
    if method not in METHODS:
        return FIELDS
    name = dataclasses.replace(FIELDS["method.name"], default=method)
    own = {"name": name, **_of(METHODS[method])}
    first = {key: own[key] for key in FIRST_KEYS.get(method, ())}
    return {**FIELDS, **{f"method.{k}": own[k] for k in {**first, **own}}}


def method_fields(name: str) -> dict:
    """A method's hyper-parameters that a configuration can hold, with defaults."""
    return nested(defaults(all_fields(name)))["method"]


def _of(factory: Callable) -> dict[str, Field]:
    """Returns the fields of a factory by the names of its arguments."""
    told, found = annotations(factory), {}
    for key, default in arguments(factory).items():
        value, allowed = _value(key, default), _allowed(key, told[key])
        if isinstance(value, bool | int | float | str):
            traced = type(value) is float and STATIC not in told[key]
            text = HELP.get(key) or documented_argument(factory, key)
            program = TRACED if traced else STATIC
            found[key] = Field(value, text, allowed, program)
    return found


def _value(key: str, default: Any):
    """Returns what a configuration holds in place of an argument's default."""
    if key in OPTIONS:
        return default_name(key, default)
    return 0 if key in INHERITED_FIELDS else NETWORKS.get(key, default)


def _allowed(key: str, metadata: Iterable) -> Range | Names | None:
    """Returns the names or the range of an argument in a configuration."""
    if key in OPTIONS:
        return Names(OPTIONS[key])
    if key in NETWORKS:
        return Names(models.NETS)
    own = next((m for m in metadata if isinstance(m, Range)), None)
    if own is None or key not in INHERITED_FIELDS:
        return own
    words = f"0 (that of {INHERITED_FIELDS[key]}) or {own.words}"
    return dataclasses.replace(own, words=words, low=0)


def documented_argument(factory: Callable, name: str) -> str:
    """The line about an argument under "Args:" of a docstring; empty without one."""
    text = inspect.cleandoc(factory.__doc__ or "").partition("Args:\n")[2]
    entry = rf"^  (?:\w+, )*{name}(?:, \w+)*: (.*(?:\n    .*)*)"
    found = re.search(entry, text, re.MULTILINE)
    return " ".join(found[1].split()).removesuffix(".") if found else ""

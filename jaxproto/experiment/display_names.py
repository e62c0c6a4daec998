"""Names of methods in tables and pictures, as papers print them: `Method.title`."""

import functools
import itertools
from collections.abc import Callable, Mapping
from functools import partial

import ml_collections

from jaxproto import models
from jaxproto.config.factory_fields import method_fields
from jaxproto.config.registries import OPTIONS
from jaxproto.core.types import Spec
from jaxproto.errors import UserError
from jaxproto.experiment.method_builder import build_method
from jaxproto.methods import METHODS

CENTRALISED = "Centralised"  # one network, trained on the examples of all clients
SMALL = Spec(10, 10)  # smallest shapes that fit every option of masks
NETWORK = partial(
    models.build,
    input_shape=(8, 8, 1),
    num_classes=SMALL.num_classes,
    feat_dim=SMALL.feat_dim,
)


def display_name(fields: Mapping) -> str:
    """Returns the title of a run's method, or its name if it has no title.

    The name is also used for a method that inherits the title of an earlier one, and
    for methods and bases that are not registered.

    Args:
      fields: flat fields of the configuration.
    """
    name, base = fields["method.name"], fields.get("method.base")
    if fields.get("data.centralised"):
        return CENTRALISED
    if name not in METHODS or (base and base not in OPTIONS["base"]):
        return f"{name} on {base}" if base else name
    chosen = tuple(
        (key, value)
        for key, options in OPTIONS.items()
        if (value := fields.get(f"method.{key}")) in options
    )
    title = _title(name, METHODS[name], chosen)
    earlier = itertools.takewhile(lambda other: other != name, METHODS)
    taken = {_title(other, METHODS[other]) for other in earlier}
    return name if title in taken else title or name


def method_of_title(title: str) -> str:
    """Returns the name of the method that has a title, options at their defaults."""
    return next(
        name for name in METHODS if display_name({"method.name": name}) == title
    )


@functools.cache
def _title(name: str, factory: Callable, chosen: tuple = ()) -> str:
    """Returns the title of a method with these options; "" if it has no title."""
    del factory  # part of the cache key: a name may be registered again
    fields = method_fields(name)
    fields |= {key: value for key, value in chosen if key in fields}
    config = ml_collections.ConfigDict(fields)
    try:
        return build_method(config, SMALL, 1, network=NETWORK).title
    except UserError:  # a method that needs more than its defaults
        return ""

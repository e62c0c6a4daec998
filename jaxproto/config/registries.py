"""The names by which a configuration chooses functions and values."""

import inspect
import operator
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from jaxproto import batches, client
from jaxproto.methods import METHODS
from jaxproto.methods.options import DERIVED_ARGUMENTS as DERIVED_ARGUMENTS
from jaxproto.methods.options import GROUPED_ARGUMENTS, INHERITED_FIELDS, OPTIONS
from jaxproto.methods.options import NETWORKS as NETWORKS

BUILTIN_OPTIONS = {key: dict(values) for key, values in OPTIONS.items()}
INHERITED_VALUES = {  # argument that is 0 in a configuration -> config -> value
    key: operator.attrgetter(path) for key, path in INHERITED_FIELDS.items()
}
ORDERS = {"shuffled": batches.shuffled, "fixed": batches.fixed}
SHORT_CLIENT_POLICIES = {
    "wrap": batches.at_least_one_batch,
    "skip": batches.whole_batches_only,
}
INIT_KEYS = {"independent": client.per_client_init_key, "same": client.shared_init_key}
OPTIMIZER_STATES = {"restart": client.reset_opt_state, "keep": client.keep_opt_state}


def arguments(factory: Callable) -> dict:
    """Returns a factory's arguments and defaults; `GROUPED_ARGUMENTS` by field."""
    flat: dict[str, Any] = {}
    for key, p in inspect.signature(factory).parameters.items():
        together = isinstance(p.default, GROUPED_ARGUMENTS)
        flat |= p.default._asdict() if together else {key: p.default}
    return flat


def annotations(factory: Callable) -> dict[str, tuple]:
    """Returns the `Annotated` of each argument; `GROUPED_ARGUMENTS` by field.

    A factory whose annotations cannot be resolved has none.
    """
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters
    except Exception:  # whatever a name in a text of one's own raises
        parameters = inspect.signature(factory).parameters
    flat: dict[str, tuple] = {}
    for key, p in parameters.items():
        if isinstance(p.default, GROUPED_ARGUMENTS):
            hints = typing.get_type_hints(type(p.default), include_extras=True)
            flat |= {name: _metadata(hint) for name, hint in hints.items()}
        else:
            flat[key] = _metadata(p.annotation)
    return flat


def _metadata(hint) -> tuple:
    """The metadata of an `Annotated`, or of those that a union is made of."""
    own = getattr(hint, "__metadata__", None)
    if own is not None:
        return own
    unions = (typing.Union, types.UnionType)
    parts = typing.get_args(hint) if typing.get_origin(hint) in unions else ()
    return tuple(found for part in parts for found in _metadata(part))


def group_arguments(factory: Callable, given: Mapping) -> dict:
    """Returns a factory's arguments, `GROUPED_ARGUMENTS` built of fields."""
    made = dict(given)
    for key, p in inspect.signature(factory).parameters.items():
        if isinstance(p.default, GROUPED_ARGUMENTS):
            own = {k: made.pop(k) for k in p.default._fields if k in made}
            made[key] = made.get(key, p.default)._replace(**own)
    return made


def default_name(key: str, value) -> str:
    """The name of the value that an argument has by default."""
    return next(name for name, there in OPTIONS[key].items() if there is value)


def options_changed() -> bool:
    """Whether an option has a value that did not come with the package."""
    return OPTIONS != BUILTIN_OPTIONS


def needs_rounds(config) -> bool:
    """Whether a round depends on the number of rounds: a run cannot be made longer."""
    asked = inspect.signature(METHODS[config.method.name]).parameters
    return "rounds" in asked or config.optimizer.schedule == "cosine"

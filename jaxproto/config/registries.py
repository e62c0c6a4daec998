"""Registries of the functions and values that a configuration names."""

import inspect
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

from jaxproto.core.hyperparameters import ARGUMENT_GROUPS
from jaxproto.core.registry import Registry, places
from jaxproto.methods.options import DERIVED_ARGUMENTS as DERIVED_ARGUMENTS
from jaxproto.methods.options import OPTIONS as OPTIONS

ORDERS: Registry[Callable] = Registry(
    "order",
    places("core.batches", "shuffled", "fixed"),
    group="jaxproto.orders",
)
SHORT_CLIENT_POLICIES: Registry[Callable] = Registry(
    "policy of short clients",
    places("core.batches", wrap="at_least_one_batch", skip="whole_batches_only"),
    group="jaxproto.short_clients",
)
INIT_KEYS: Registry[Callable] = Registry(
    "initial key",
    places("round.client", independent="per_client_init_key", same="shared_init_key"),
    group="jaxproto.initial_keys",
)
OPTIMIZER_STATES: Registry[Callable] = Registry(
    "policy of optimiser states",
    places("round.client", restart="reset_opt_state", keep="keep_opt_state"),
    group="jaxproto.optimizer_states",
)


def arguments(factory: Callable) -> dict:
    """Returns a factory's arguments and defaults, with groups of arguments flat."""
    flat: dict[str, Any] = {}
    for key, p in inspect.signature(factory).parameters.items():
        grouped = isinstance(p.default, tuple(ARGUMENT_GROUPS))
        flat |= p.default._asdict() if grouped else {key: p.default}
    return flat


def annotations(factory: Callable) -> dict[str, tuple]:
    """Returns the `Annotated` metadata of each argument, groups flat.

    Annotations that cannot be resolved have no metadata.
    """
    try:
        parameters = inspect.signature(factory, eval_str=True).parameters
    except Exception:  # a user's annotation as text may raise anything
        parameters = inspect.signature(factory).parameters
    flat: dict[str, tuple] = {}
    for key, p in parameters.items():
        if isinstance(p.default, tuple(ARGUMENT_GROUPS)):
            hints = typing.get_type_hints(type(p.default), include_extras=True)
            flat |= {name: _metadata(hint) for name, hint in hints.items()}
        else:
            flat[key] = _metadata(p.annotation)
    return flat


def _metadata(hint) -> tuple:
    """Returns the metadata of an `Annotated`, or of the members of a union."""
    if hasattr(hint, "__metadata__"):
        return hint.__metadata__
    unions = (typing.Union, types.UnionType)
    members = typing.get_args(hint) if typing.get_origin(hint) in unions else ()
    return tuple(item for member in members for item in _metadata(member))


def plain_arguments(factory: Callable) -> set[str]:
    """Returns the arguments that have a bool, number or text as their own default.

    They are fields as they are, also where the name has a meaning in `options.py`.
    """
    parameters = inspect.signature(factory).parameters.items()
    return {k for k, p in parameters if isinstance(p.default, bool | int | float | str)}


def group_arguments(factory: Callable, flat: Mapping) -> dict:
    """Returns a factory's arguments, with groups built from `flat`."""
    grouped = dict(flat)
    for key, p in inspect.signature(factory).parameters.items():
        if isinstance(p.default, tuple(ARGUMENT_GROUPS)):
            group: Any = p.default
            fields = {k: grouped.pop(k) for k in group._fields if k in grouped}
            grouped[key] = grouped.get(key, group)._replace(**fields)
    return grouped

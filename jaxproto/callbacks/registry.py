"""Registry of writers by name."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from jaxproto import plugins
from jaxproto.callbacks.base import EVENTS, Callback
from jaxproto.callbacks.checks import check_callback, check_factory, make_checked
from jaxproto.core.registry import Place, Registry, places
from jaxproto.errors import UserError, choose_from

ALWAYS = "jsonl"  # name of `metrics.jsonl`, which every run writes


WRITERS: Registry[Any] = Registry(  # name -> function that makes a callback
    "writer",
    {
        **places("callbacks.csv_file", csv="CsvWriter"),
        **{name: Place(place) for name, place in plugins.table("WRITERS").items()},
    },
    reserved=[ALWAYS],
    group="jaxproto.writers",
    install="pip install 'jaxproto[{}]' installs what it needs.",
)
CallbackSpec = str | Callable[[], Callback]  # writer's name or factory


def as_list(specs: object) -> list:
    """Returns `callbacks` as a list: also a single one, or names joined by commas."""
    if isinstance(specs, str):
        return specs.split(",")
    return list(specs) if isinstance(specs, Iterable) else [specs]


def callback_factories(specs: Sequence[CallbackSpec]) -> list[Callable[[], Callback]]:
    """Returns the factories of the callbacks of a run, or of each run of a sweep.

    Raises:
      UserError: A writer is unknown or its library is missing, a spec is neither a
        name nor callable, or a class has a method `on_*` that is no event. A factory
        raises UserError if it fails.
    """
    unique = dict.fromkeys(as_list(specs))
    return [partial(make_checked, _factory(spec)) for spec in unique if spec != ALWAYS]


def make_callbacks(specs: Sequence[str | Callback]) -> list[Callback]:
    """Returns the callbacks of one run; writers may be given by name.

    Raises:
      UserError: As in `callback_factories`; or an object is no callback.
    """
    callbacks = []
    for spec in as_list(specs):
        if isinstance(spec, str):
            callbacks += [make() for make in callback_factories([spec])]
        elif isinstance(spec, type) or not any(
            callable(getattr(spec, event, None)) for event in EVENTS
        ):
            raise UserError(
                f"{spec!r} is no callback: give an object that has one of the methods "
                f"{', '.join(EVENTS)}, or the name of a writer."
            )
        else:
            callbacks.append(check_callback(spec))
    return callbacks


def _factory(spec: CallbackSpec) -> Callable[[], Callback]:
    if not isinstance(spec, str):
        if not callable(spec):
            raise UserError(
                f"{spec!r} makes no callback: each cell of a sweep needs its own, so "
                "give the class, or a function that makes one."
            )
        return check_factory(spec)
    writer = WRITERS[choose_from("writer", spec, [ALWAYS, *WRITERS])]
    return writer if WRITERS.is_builtin(spec) else check_factory(writer)

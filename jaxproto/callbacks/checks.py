"""Checks of callbacks and of their factories before a run trains."""

import inspect
from collections.abc import Callable, Iterable

from jaxproto.callbacks.base import EVENTS, Callback
from jaxproto.errors import UserError, choose_from, describe_failure, place_of, shorten


def check_callback(callback: Callback) -> Callback:
    """Returns a callback if all its methods `on_*` can handle an event.

    Raises:
      UserError: A method is no event, or does not take the arguments of its event.
    """
    kind = type(callback).__name__
    for event in _check_events(callback, kind):
        _, *given = inspect.signature(getattr(Callback, event)).parameters
        _check_call(getattr(callback, event), given, f"callback {kind}: {event}")
    return callback


def check_factory(make: Callable[[], Callback]) -> Callable[[], Callback]:
    """Returns a user's factory of callbacks if it can be called; calls nothing.

    Raises:
      UserError: It needs arguments, or is a class with a method that is no event.
    """
    kind = getattr(make, "__name__", repr(make))
    _check_call(make, [], f"callback {kind}")
    if isinstance(make, type):
        _check_events(make, kind)
    return make


def make_checked(make: Callable[[], Callback]) -> Callback:
    """Returns the callback of a factory.

    Raises:
      UserError: The factory fails, or `check_callback` refuses its result.
    """
    try:
        callback = make()
    except UserError:
        raise
    except (Exception, SystemExit) as e:  # a user's factory may raise anything
        raise UserError(
            f"{shorten(make)} makes no callback: {describe_failure(e)}."
        ) from e
    return check_callback(callback)


def _check_events(owner: object, kind: str) -> list[str]:
    """Returns the events that an object handles; raises UserError for other `on_*`."""
    names = [name for name in dir(owner) if name.startswith("on_")]
    handlers = [name for name in names if callable(getattr(owner, name))]
    return [choose_from(f"event of callback {kind}", name, EVENTS) for name in handlers]


def _check_call(f: Callable, given: Iterable[str], what: str):
    """Raises UserError if a function does not take the arguments of its call."""
    try:
        signature = inspect.signature(f)
    except (ValueError, TypeError):  # a function in C may have none
        return
    try:
        signature.bind(*given)
    except TypeError as e:
        raise UserError(
            f"{what} takes {signature}, but is called with ({', '.join(given)}) "
            f"({place_of(f)})."
        ) from e

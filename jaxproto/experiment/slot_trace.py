"""Traces of the functions of a method by shapes, with messages for its author."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxproto.core import tracing
from jaxproto.core.method import Aggregation, Method
from jaxproto.core.types import Net, Tree, kind_of
from jaxproto.errors import (
    ExplainedError,
    UserError,
    describe_failure,
    place_of,
    shorten,
)
from jaxproto.origin import is_external

STATIC = (
    "; a float of the factory that decides it is annotated as Annotated[float, STATIC] "
    "(jaxproto.core.hyperparameters)"
)
# function -> functions whose results are its arguments
_CLIENT = ("broadcast", "init_client")
SOURCES = {
    "broadcast": ("init_server",),
    **dict.fromkeys(("receive", "receive_stats", "loss", "pre_upload"), _CLIENT),
    **dict.fromkeys(("upload", "predict"), _CLIENT),
    "release": ("upload", *_CLIENT),
    "pre_aggregate": ("pre_upload", "init_server"),
    "update": ("upload", "release", "init_server"),
    "features": ("init_client",),
}
AGGREGATES = ("pre_aggregate", "update")
PARTS = {  # names of the results; other functions return one
    "init_client": ("params", "norm", "memory"),
    "upload": ("message", "memory"),
}
NEVER_NONE = ("init_server", "broadcast", "pre_upload", "upload", "release")
NOT_STORED = ("loss", "features", "predict")  # results that are checked elsewhere


class _Call(NamedTuple):
    """Trace of a function of a method."""

    slot: str
    pick: Callable[[Method], Callable]  # function that was traced
    args: tuple
    trace: tracing.Trace


class SlotTracer:
    """Traces the functions of a method, and notes what their traces depend on.

    Args:
      method: Method whose functions are called.
    """

    def __init__(self, method: Method):
        self.method = method
        self.calls: list[_Call] = []

    def __call__(
        self,
        slot: str,
        *args: Tree,
        net: Net | None = None,
        pick: Callable[[Method], Callable] | None = None,
        kind: Callable | None = None,
    ) -> Any:
        """Returns the shapes of what a function of the method returns.

        Args:
          slot: Field of the method.
          args: Shapes of its arguments after `net`.
          net: First argument, if the function has one.
          pick: Method -> function, if it is not the field itself.
          kind: Check of the result, which raises `ExplainedError`.
        """
        get = pick or (lambda method: getattr(method, slot))
        pick = get if net is None else lambda method: partial(get(method), net)
        f = pick(self.method)

        def call(*args):
            out = f(*args)
            if kind is not None:
                kind(out)
            _check_arrays(slot, out)
            return out

        try:
            made = tracing.trace(call, *args, name=slot)
        except UserError:
            raise
        except ExplainedError as e:
            raise slot_error(self.method, slot, f"{e}") from e
        except Exception as e:  # an author's function may raise anything
            branch = isinstance(e, jax.errors.ConcretizationTypeError)
            what = f"fails: {describe_failure(e)}{STATIC * branch}"
            sources = self._sources(slot)
            own = is_external(author_function(self.method, slot))
            raise slot_error(
                self.method, slot, what + sources, own or not sources
            ) from e
        self.calls.append(_Call(slot, pick, args, made))
        return made.shapes

    def _sources(self, slot: str) -> str:
        """Returns the origin of the arguments of a function that fails.

        A function of the library got a wrong value from a function of the user.
        """
        of = partial(author_function, self.method)
        sources = list(SOURCES.get(slot, ()))
        if is_external(of(slot)):
            sources = sources[:1] if slot in AGGREGATES else []
        else:
            sources = [s for s in sources if is_external(of(s))]
        made = {call.slot: call.trace.shapes for call in self.calls}
        return "".join(
            f"; its argument came from {s} ({place_of(of(s))}), which returns "
            f"{_describe_result(s, made[s])}"
            for s in sources
            if s in made
        )

    def again(self, method: Method) -> list[tuple[str, tracing.Trace, bool]]:
        """Traces the functions of users again.

        Args:
          method: Method that the factory has made anew.

        Returns:
          Slot, trace, and whether it differs from the first one.
        """
        found = []
        for slot, pick, args, first in self.calls:
            if is_external(author_function(method, slot)):
                made = tracing.trace(pick(method), *args, name=slot)
                found.append((slot, made, tracing.differ(first, made)))
        return found


def check_repeatable(make: Callable, values: Tree, check: Callable[[SlotTracer], Any]):
    """Traces the functions of a method twice, in the order of a round.

    Args:
      make: Values of floats -> method.
      values: Floats that are traced.
      check: Calls a tracer for every function of its method.

    Raises:
      UserError: `check` fails, a function differs between the two traces, or it uses
        a traced value that another function kept.
    """
    methods: list[Method] = []
    found: list[tuple[str, tracing.Trace, bool]] = []

    def both(values):
        methods.extend(make(values) for _ in range(2))
        tracer = SlotTracer(methods[0])
        check(tracer)
        found.extend(tracer.again(methods[1]))
        return [made.kept for _, made, _ in found]

    # floats are its arguments, so that other traced values are of traces that ended
    ended = tracing.trace(both, values).kept
    for slot, made, _ in found:
        try:
            tracing.raise_leak([a for a in made.kept if any(a is b for b in ended)])
        except jax.errors.UnexpectedTracerError as e:
            raise slot_error(methods[0], slot, f"fails: {describe_failure(e)}") from e
    for slot, _, differs in found:
        if differs:
            raise slot_error(methods[0], slot, f"fails: {tracing.FROZEN}")


def author_function(method: Method, slot: str) -> Callable:
    """Returns the function that an author has written for a field of a method."""
    f = getattr(method, slot)
    return f.finish if isinstance(f, Aggregation) else f


def slot_error(method: Method, slot: str, what: str, placed: bool = True) -> UserError:
    """Returns an error of a function of a method, with file and line if `placed`."""
    place = f" ({place_of(author_function(method, slot))})" * placed
    return UserError(f"method {method.name!r}: {slot} {what}{place}.")


def _results(slot: str, out: Any) -> Iterable[tuple[str, Any]]:
    """Returns the names and values of what a function returns."""
    names = PARTS.get(slot)
    return [("", out)] if names is None else zip(names, out, strict=True)


def _describe_result(slot: str, out: Any) -> str:
    """Returns type and leaves of what a function passes on, without the memory."""
    _, value = next(iter(_results(slot, out)))
    kind, leaves = kind_of(value), tracing.describe_tree(value)
    return kind if leaves == kind else f"{kind}: {leaves}"


def _check_arrays(slot: str, out: Any):
    """Raises `ExplainedError` for a message or state that has other than arrays."""
    if slot in NOT_STORED:
        return
    for i, (name, value) in enumerate(_results(slot, out)):
        if value is None and slot in NEVER_NONE and i == 0:
            what = f"None as {name}" if name else "None"
            raise ExplainedError(f"returns {what}; return () if there is nothing")
        for path, leaf in jax.tree_util.tree_leaves_with_path(value):
            if not isinstance(leaf, jax.Array | np.ndarray):
                at = jax.tree_util.keystr(path)
                where = f" in its {name}" * bool(name) + f" at {at}" * bool(at)
                raise _no_array(leaf, where)


def _no_array(value: Any, where: str) -> ExplainedError:
    """Returns the error for a value that is no array."""
    scalar = isinstance(value, bool | int | float | np.generic)
    plain = value.item() if isinstance(value, np.generic) else value
    kind = f"{'NumPy' if plain is not value else 'Python'} {type(value).__name__}"
    way = f"make it jnp.asarray({plain!r})" if scalar else "only arrays are passed on"
    return ExplainedError(f"returns the {kind} {shorten(plain)}{where}; {way}")

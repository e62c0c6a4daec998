"""Runs with `jax_debug_nans`: which programs may return NaN, and the line of others."""

from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import jax

from jaxproto.errors import UserError, describe_failure

# NaN means "no value" among the diagnostics, which the state of the server may have. A
# NaN in the rest of that state is found in the broadcast.
UNCHECKED = ("start_server", "pre_aggregate", "update", "diagnostics")


def locate_nans(compiled: Any, plain: Callable[[], Any]) -> Any:
    """Returns programs that fail with the line of code that makes NaN.

    Without `jax_debug_nans`, returns the programs as they are.

    Args:
      compiled: `Programs` with the floats of a run.
      plain: Returns the functions of these programs.
    """
    if not jax.config.jax_debug_nans:  # type: ignore[attr-defined]
        return compiled

    def stage(name, programs, functions):
        if name in UNCHECKED:
            return jax.tree.map(unchecked, programs)
        return jax.tree.map(partial(_located, name), programs, functions)

    return type(compiled)(*map(stage, compiled._fields, compiled, plain()))


def unchecked(function: Callable) -> Callable:
    """Returns a function whose results may have NaN, such as "no value"."""

    @wraps(function)
    def call(*args):
        with jax.debug_nans(False):
            return function(*args)

    return call


def _located(name: str, program: Callable, plain: Callable) -> Callable:
    """Returns a program that is repeated without compilation if a result has NaN."""

    def call(*args):
        try:
            return program(*args)
        except Exception as error:
            if "FloatingPointError" not in type(error).__name__:  # JAX's may be private
                raise
            cause = error
        try:
            with jax.disable_jit():
                plain(*args)
        except FloatingPointError as error:
            cause = error
        raise UserError(
            f"jax_debug_nans: program {name!r} makes NaN: {describe_failure(cause)}."
        ) from cause

    return call

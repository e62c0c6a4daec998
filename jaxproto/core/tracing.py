"""Traces of functions of users by shapes, and what a trace would freeze.

A run traces a function once and then repeats the compiled program in all rounds. A draw
of NumPy, the clock or a counter would keep its first value, and a traced value that one
function keeps for another has no value at all.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from enum import Enum
from typing import NamedTuple

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal

from jaxproto.core.types import Tree, describe, is_key, kind_of
from jaxproto.errors import ExplainedError, first_few

FROZEN = (
    "it changes from one trace to the next, as np.random, the clock or a counter do: a "
    "run traces it once and would repeat the first draw in all rounds; draw with "
    "jax.random and a `key`"
)
PLAIN = (bool, int, float, complex, str, np.dtype, Enum)  # parameters of equations


class Trace(NamedTuple):
    """Program of a function, and the shapes that it returns."""

    program: ClosedJaxpr
    shapes: Tree

    @property
    def kept(self) -> list[jax.core.Tracer]:
        """Traced values from outside the function that it uses."""
        consts = self.program.consts
        return [value for value in consts if isinstance(value, jax.core.Tracer)]


def trace(f: Callable, *args: Tree, name: str = "") -> Trace:
    """Traces a function with arguments of these shapes.

    Args:
      name: Name of the function in JAX's error for a value that it keeps.
    """

    def call(*args):  # another function every time, as JAX caches traces by function
        return f(*args)

    call.__name__ = name or getattr(f, "__name__", "")
    return Trace(*jax.make_jaxpr(call, return_shape=True)(*args))


def shapes_of(f: Callable, *args: Tree, times: int = 2) -> Tree:
    """Returns the shapes that a function of a user returns.

    Args:
      args: Shapes of its arguments.
      times: Traces, which are compared.

    Raises:
      ExplainedError: The traces differ.
      UnexpectedTracerError: It uses a value that was kept from another trace.
    """
    first, *others = (trace(f, *args) for _ in range(times))
    for other in (first, *others):
        raise_leak(other.kept)
    if any(differ(first, other) for other in others):
        raise ExplainedError(FROZEN)
    return first.shapes


def raise_leak(kept: list[jax.core.Tracer]):
    """Raises JAX's error, which has lines, for values of traces that have ended."""
    for value in kept:
        jax.lax.expand_dims(value, [0])


def differ(first: Trace, other: Trace) -> bool:
    """Returns whether two programs have other equations or constants, in any order."""
    one, two = (_parts(t.program.jaxpr, t.program.consts) for t in (first, other))
    return Counter(one) != Counter(two)


def _parts(program: Jaxpr, consts: list) -> Iterator[Hashable]:
    """Yields the constants and equations of a program and of the programs inside.

    Names of variables, functions and positions in the source are left out.
    """
    yield from map(_value, consts)
    yield tuple(_value(a.val) for a in program.outvars if isinstance(a, Literal))
    for eqn in program.eqns:
        literals = (_value(a.val) for a in eqn.invars if isinstance(a, Literal))
        types = (str(a.aval) for a in eqn.outvars)
        plain: list[Hashable] = []
        for value in jax.tree.leaves(eqn.params):
            if isinstance(value, ClosedJaxpr):
                yield from _parts(value.jaxpr, value.consts)
            elif isinstance(value, Jaxpr):
                yield from _parts(value, [])
            elif isinstance(value, PLAIN):
                plain.append(repr(value))
            elif isinstance(value, jax.Array | np.ndarray | np.generic):
                plain.append(_value(value))
        yield eqn.primitive.name, *literals, *types, *plain


def _value(constant) -> Hashable:
    """Returns type, shape and bytes of a constant."""
    if isinstance(constant, jax.core.Tracer):
        return str(constant.aval)
    if is_key(constant):
        with jax.ensure_compile_time_eval():
            constant = jax.random.key_data(constant)
    array = np.asarray(constant)
    return array.dtype.str, array.shape, array.tobytes()


def describe_tree(tree: Tree) -> str:
    """Returns paths, types and shapes of the leaves of a tree."""
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    text = [f"{jax.tree_util.keystr(path)} {describe(a)}".strip() for path, a in leaves]
    return first_few(text) or kind_of(tree)

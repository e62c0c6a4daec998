"""Digests of functions and values of a user: what they compute, not where they are.

A function counts with its instructions, constants, defaults, closure, and the globals
that it refers to; so do the user's functions, classes and modules among these. A
comment, a docstring, a move to another file and another function of the file change no
digest. Functions of this package and of libraries count by name. Arrays and other
values count by content, never by address: all processes of one Python version agree.
"""

import dataclasses
import dis
import hashlib
import importlib.util
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxproto.origin import file_of, in_library, in_package, top_module
from jaxproto.types import is_key

PLAIN = (type(None), bool, int, float, complex, str, bytes)
GLOBAL, IMPORT = ("LOAD_GLOBAL", "LOAD_NAME"), "IMPORT_NAME"  # instructions


def digest(
    value,
    registries: Iterable[Mapping] = (),
    named: Mapping[str, Sequence] = types.MappingProxyType({}),
) -> tuple[str, bool]:
    """Returns the digest of a value, and whether it refers to code of the user.

    Args:
      registries: registries, of which code refers to single entries by name.
      named: entries of the user in registries, by name.
    """
    walk = _Walk(registries, named)
    return walk.of(value).hex(), walk.reached


class _Walk:
    """A walk over all that a value refers to.

    Attributes:
      reached: whether it has met code of the user.
    """

    def __init__(self, registries: Iterable[Mapping], named: Mapping):
        self._named, self.reached = named, False
        self._done = {id(table): b"registry" for table in registries}
        self._alive: list = []  # so that no other object gets the id of one

    def of(self, value) -> bytes:
        """Returns the digest of a value."""
        if isinstance(value, PLAIN):
            return _hash(type(value).__name__, repr(value))
        if id(value) not in self._done:
            self._alive.append(value)
            self._done[id(value)] = _hash("cycle", type(value).__qualname__)
            try:
                parts = list(self._parts(value))
            except Exception:  # what cannot be pickled, such as a lock
                parts = [type(value).__qualname__]
            self._done[id(value)] = _hash(*parts)
        return self._done[id(value)]

    def _parts(self, value) -> Iterator[str | bytes]:
        """Yields the texts and digests of which a value consists."""
        yield type(value).__qualname__
        if isinstance(value, types.FunctionType):
            yield from self._function(value)
        elif isinstance(value, type | types.ModuleType):
            yield from self._scope(value)
        elif isinstance(value, jax.Array | np.ndarray | np.generic):
            data: Any = value
            a = np.asarray(jax.random.key_data(data) if is_key(data) else data)
            yield f"{a.dtype}{a.shape}"
            yield self.of(a.tolist()) if a.dtype.hasobject else a.tobytes()
        elif isinstance(value, Mapping):
            yield from sorted(self.of(k) + self.of(v) for k, v in value.items())
        elif isinstance(value, list | tuple):
            yield from map(self.of, [type(value), *value])
        elif isinstance(value, set | frozenset):
            yield from sorted(map(self.of, value))
        elif isinstance(value, property):
            yield self.of([value.fget, value.fset])
        elif hasattr(value, "__wrapped__"):  # jit, custom_vjp, lru_cache, staticmethod
            others = getattr(value, "__dict__", {}).items()
            functions = {k: f for k, f in others if callable(f)}
            yield self.of([value.__wrapped__, functions])
        elif dataclasses.is_dataclass(value):
            fields = dataclasses.fields(value)
            values = [getattr(value, field.name, None) for field in fields]
            yield self.of([type(value), *values])
        else:
            saved = value.__reduce_ex__(4)  # what pickle would store
            yield self.of(saved if isinstance(saved, str) else [*map(_items, saved)])

    def _is_users(self, value) -> bool:
        """Notes and returns whether a function, class or module is the user's."""
        found = is_users(value)
        self.reached |= found
        return found

    def _function(self, f: types.FunctionType) -> Iterator[str | bytes]:
        """Yields the parts of a function; of a library's, its name and closure."""
        yield self.of([_content(cell) for cell in f.__closure__ or ()])
        if self._is_users(f):
            yield self.of([f.__defaults__, f.__kwdefaults__])
            yield from self._code(f.__code__, f.__globals__)
        else:
            yield _name(f)

    def _code(self, code: types.CodeType, scope: Mapping) -> Iterator[str | bytes]:
        """Yields the instructions of a function, with the values they refer to."""
        yield repr((code.co_argcount, code.co_kwonlyargcount, code.co_varnames))
        yield repr((code.co_flags, code.co_exceptiontable))
        for op in dis.get_instructions(code):
            yield op.opname
            if isinstance(op.argval, types.CodeType):
                yield from self._code(op.argval, scope)
            elif op.opcode in dis.hasconst:
                yield self.of(op.argval)
                if isinstance(op.argval, str):
                    yield from map(self.of, self._named.get(op.argval, ()))
            else:
                yield repr(op.argval)
            if op.opname in GLOBAL and op.argval in scope:
                yield self.of(scope[op.argval])
            elif op.opname == IMPORT:
                yield from _content_of_module(op.argval, scope)

    def _scope(self, value) -> Iterator[str | bytes]:
        """Yields the parts of a class or module; of a library's, its name."""
        if not self._is_users(value):
            yield _name(value)
            return
        yield self.of(getattr(value, "__bases__", ()))
        for name, inside in sorted(vars(value).items()):
            special = name.startswith("__") and name.endswith("__")
            if not special or isinstance(inside, types.FunctionType):
                yield name
                yield self.of(inside)


def is_users(value) -> bool:
    """Returns whether a function, class or module is of the user's own files.

    Those of this package, of Python and of installed packages are not.
    """
    file = file_of(value)
    if not file and top_module(value) in sys.stdlib_module_names:
        return False
    return not (in_package(file) or in_library(file))


def _hash(*parts: str | bytes) -> bytes:
    """Returns a digest of texts and bytes."""
    result = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part if isinstance(part, bytes) else part.encode(errors="replace")
        result.update(len(content).to_bytes(8, "big"))
        result.update(content)
    return result.digest()


def _items(state):
    """Returns the list of an iterator, which `__reduce_ex__` has for items."""
    return [*state] if isinstance(state, Iterator) else state


def _content(cell: types.CellType):
    """Returns the value of a closure's cell; None if it has none yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _name(value) -> str:
    """Returns the top-level module and the name: another file of a library keeps it."""
    return f"{top_module(value)} {getattr(value, '__qualname__', value.__name__)}"


def _content_of_module(name: str, scope: Mapping) -> Iterator[bytes]:
    """Yields the content of a user's file that a function imports when it runs."""
    for full in (name, f"{scope.get('__package__')}.{name}"):  # absolute or relative
        try:
            spec = importlib.util.find_spec(full)
        except (ImportError, ValueError, AttributeError):
            continue
        file = (spec and spec.origin) or ""
        if file.endswith(".py") and not (in_package(file) or in_library(file)):
            yield Path(file).read_bytes()

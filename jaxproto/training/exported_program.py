"""A lowered program as bytes, and back: plain data that executes nothing when read.

A file is one line of JSON, `{"version": ..., "digest": ...}`, a line of JSON with the
tree of the results, and the StableHLO of `jax.export`. The digest is over the name of
the file and all after the first line: a flipped byte, a file cut short and one in
another's place do not verify. Types in a tree are named, and only those named tuples
and flax nodes of this package and of optax that are imported already can be named.
"""

import dataclasses
import hashlib
import json
import sys
from collections.abc import Callable
from typing import NamedTuple

import flax.struct
import jax
import jax.export

from jaxproto.types import Tree

VERSION = 1
PACKAGES = ("jaxproto", "optax")  # whose types results are made of
PLAIN = (bool, int, float, str, type(None))  # values of static fields


class Damaged(Exception):
    """Not what was written; the message says in which way."""


class ExportedProgram(NamedTuple):
    """A program on lists of arrays, and the tree of its results."""

    out: Tree  # the number of a result in each leaf's place
    program: jax.export.Exported

    def whole(self) -> Callable:
        """The program as a function of trees."""
        form, program = jax.tree.structure(self.out), self.program
        return lambda *args: jax.tree.unflatten(
            form, program.call(*jax.tree.leaves(args))
        )


def digest(*parts: bytes) -> str:
    """Of parts, of which none can pass for the end of the one before."""
    total = hashlib.blake2b(digest_size=20)
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


def pack(name: str, stored: ExportedProgram) -> bytes:
    """The content of the file `name`.

    Raises:
      TypeError: the results have a node that cannot be named.
    """
    plain = to_plain_data(stored.out)
    if to_plain_data(from_plain_data(plain)) != plain:
        raise TypeError("the tree of the results is not what its description says")
    tree = json.dumps(plain).encode()
    rest = b"\n".join([tree, bytes(stored.program.serialize())])
    head = {"version": VERSION, "digest": digest(name.encode(), rest)}
    return b"\n".join([json.dumps(head).encode(), rest])


def unpack(name: str, content: bytes, args: tuple) -> ExportedProgram:
    """What `pack` was given.

    Args:
      args: those of the function, for their shapes.

    Raises:
      Damaged: this is no such content, or a program of other arguments.
    """
    head, _, rest = content.partition(b"\n")
    want = {"version": VERSION, "digest": digest(name.encode(), rest)}
    if head != json.dumps(want).encode():
        raise Damaged("its checksum is not that of its content")
    tree, _, program = rest.partition(b"\n")
    try:
        stored = ExportedProgram(
            from_plain_data(json.loads(tree)),
            jax.export.deserialize(bytearray(program)),
        )
        fits = _fits(stored, args)
    except Exception as e:  # of another version of JAX, a type that is no longer there
        raise Damaged(f"{type(e).__name__}: {e}") from e
    if not fits:
        raise Damaged("its arguments or results are those of another function")
    return stored


def _fits(stored: ExportedProgram, args: tuple) -> bool:
    """Whether arguments and number of results are the program's."""
    here = [(a.shape, a.dtype) for a in jax.tree.leaves(args)]
    there = [(a.shape, a.dtype) for a in stored.program.in_avals]
    numbers = [*range(len(stored.program.out_avals))]
    return here == there and jax.tree.leaves(stored.out) == numbers


def to_plain_data(node: Tree):
    """A tree of numbers as plain data.

    Raises:
      TypeError: a node is of no known type.
    """
    kind = type(node)
    if kind is int or node is None:
        return node
    if kind is dict and all(type(key) is str for key in node):
        return {"dict": {key: to_plain_data(value) for key, value in node.items()}}
    if kind in (tuple, list):
        return {kind.__name__: [to_plain_data(value) for value in node]}
    name = f"{kind.__module__}:{kind.__qualname__}"
    children, static = fields(result_type(name))
    fixed = {key: getattr(node, key) for key in static}
    if not all(type(value) in PLAIN for value in fixed.values()):
        raise TypeError(f"static fields of {name} are {fixed}, which are no plain data")
    inside = {key: to_plain_data(getattr(node, key)) for key in children}
    return {"type": name, "fields": inside, "static": fixed}


def from_plain_data(data) -> Tree:
    """The tree that `to_plain_data` was given.

    Raises:
      TypeError: it names what is no such type, or fields that it does not have.
    """
    if data is None or type(data) is int:
        return data
    match data:
        case {"dict": dict(inside)} if len(data) == 1:
            return {key: from_plain_data(value) for key, value in inside.items()}
        case {"tuple": list(inside)} if len(data) == 1:
            return tuple(from_plain_data(value) for value in inside)
        case {"list": list(inside)} if len(data) == 1:
            return [from_plain_data(value) for value in inside]
        case {"type": str(name), "fields": dict(inside), "static": dict(fixed)}:
            kind = result_type(name)
            if ([*inside], [*fixed]) != tuple(map(list, fields(kind))):
                raise TypeError(f"{name} has other fields: {[*inside, *fixed]}")
            return kind(**{k: from_plain_data(v) for k, v in inside.items()}, **fixed)
    raise TypeError(f"no description of a tree: {data!r:.80}")


def result_type(name: str) -> type:
    """A type of results; nothing is imported for it.

    Raises:
      TypeError: there is none of this name among what is imported.
    """
    module, _, inside = name.partition(":")
    found = None
    if module.partition(".")[0] in PACKAGES and module in sys.modules:
        found = vars(sys.modules[module]).get(inside)
    if isinstance(found, type) and found.__module__ == module:
        if issubclass(found, flax.struct.PyTreeNode):
            return found
        if issubclass(found, tuple) and hasattr(found, "_fields"):
            return found
    raise TypeError(f"{name} is no named tuple or flax node of {' or '.join(PACKAGES)}")


def fields(kind: type) -> tuple[list[str], list[str]]:
    """Names of the children of a node, and of its static fields."""
    if issubclass(kind, tuple):
        return [*getattr(kind, "_fields", ())], []
    all_of = dataclasses.fields(kind)  # type: ignore[arg-type]
    children = [f.name for f in all_of if f.metadata.get("pytree_node", True)]
    return children, [f.name for f in all_of if f.name not in children]

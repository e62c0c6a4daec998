"""Serialises exported programs to bytes that execute nothing when they are read.

A file has a line with a digest, then the output of `jax.export`. The digest covers the
name of the file and all bytes after the first line, so a changed, truncated or renamed
file does not verify. `jax.export` looks up the types of arguments and results by name
among the types that are registered here; it imports nothing.
"""

import ast
import functools
import hashlib
import sys
import threading

import flax.struct
import jax
import jax.export

PACKAGES = ("jaxproto", "optax")  # with the types of arguments and results
_registering = threading.Lock()


class Damaged(Exception):
    """Content that differs from what was written; the message says how."""


def digest(*parts: bytes) -> str:
    """Returns the digest of length-prefixed parts."""
    total = hashlib.blake2b(digest_size=20)
    for part in parts:
        total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()


def pack(name: str, program: jax.export.Exported) -> bytes:
    """Serialises a program as the content of the file `name`.

    Raises:
      Exception: arguments or results have a node that cannot be written.
    """
    register_types()
    data = bytes(program.serialize())
    restored = jax.export.deserialize(bytearray(data))
    if (restored.in_tree, restored.out_tree) != (program.in_tree, program.out_tree):
        raise TypeError("static fields of arguments or results are no plain data")
    return b"\n".join([digest(name.encode(), data).encode(), data])


def unpack(name: str, content: bytes, args: tuple) -> jax.export.Exported:
    """Returns the program in the content of a file from `pack`.

    Args:
      args: Arguments of the function, or their shapes.

    Raises:
      Damaged: The content was changed, or its program has other arguments.
    """
    head, _, data = content.partition(b"\n")
    if head != digest(name.encode(), data).encode():
        raise Damaged("its checksum is not that of its content")
    register_types()
    try:
        program = jax.export.deserialize(bytearray(data))
    except Exception as e:  # of another version of JAX, or of a type that was removed
        raise Damaged(f"{type(e).__name__}: {e}") from e
    leaves, tree = jax.tree.flatten((args, {}))
    stored = [(a.shape, a.dtype) for a in program.in_avals], program.in_tree
    if ([(a.shape, a.dtype) for a in leaves], tree) != stored:
        raise Damaged("its arguments are those of another function")
    return program


def register_types():
    """Registers named tuples and flax nodes of all imported modules."""
    with _registering:
        for name, module in [*sys.modules.items()]:
            if name.partition(".")[0] in PACKAGES:
                for kind in [*vars(module).values()]:
                    if isinstance(kind, type) and kind.__module__ == name:
                        _register(kind)


@functools.cache
def _register(kind: type):
    name = f"{kind.__module__}:{kind.__qualname__}"
    if issubclass(kind, flax.struct.PyTreeNode):
        jax.export.register_pytree_node_serialization(
            kind,
            serialized_name=name,
            serialize_auxdata=lambda static: repr(static).encode(),
            deserialize_auxdata=lambda data: ast.literal_eval(data.decode()),
        )
    elif issubclass(kind, tuple) and hasattr(kind, "_fields"):
        jax.export.register_namedtuple_serialization(kind, serialized_name=name)

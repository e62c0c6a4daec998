"""Messages on the network: their form and size, inside the jitted round.

`pack` turns a message into the arrays that are sent, `unpack` turns these into the
values that the receiver gets, and `message_bytes` counts their bytes. All three are
jitted with the round, so that lossy formats act on training as they would in a
deployment. `codec.py` turns packed messages into real bytes of exactly that size.

A message is a tree of arrays, `Protos` and `Top`:
- `Protos`: one presence bit per class, the rows that are present, and their counts
  only where the method discloses them (`Protos.disclosed`).
- `Top`: the entries of a vector, or rows of a matrix, that are sent, and a bitmap or
  indices of them, whichever is cheaper.
- other arrays: every element; booleans as bits, integers as they are.

A broadcast may also have `PerClient` parts: rows of arrays or of `Top`. Every client
gets one row (`for_client`).

Values travel as float32, float16, bfloat16, or int8 with one float32 scale per row (the
last axis), scale = max |row| / 127. A value that is not finite, or beyond float16's
range, arrives as one that is not finite: a run that diverges is noticed.

    python -m jaxproto disclosure --config=configs/protonorm.py:digits

lists the fields of messages and what each reveals. Formats save bytes but give no
privacy: a message has class means and weights, which are functions of the client's
data.
"""

import math
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp
from jax import lax

from jaxproto.core.types import Array, PerClient, Protos, Top, Tree

FORMATS = ("float32", "float16", "bfloat16", "int8")
HEADER = 12  # bytes of a message before its payload: see codec.py
COUNT = 4  # bytes of a class count or of a number of entries
SCALE = 4  # bytes of the scale of an int8 row
SMALLEST = 1e-35  # an int8 row whose largest magnitude is less is sent as zeros


class Wire(NamedTuple):
    """Formats of values in both directions."""

    up: str = "float32"
    down: str = "float32"


EXACT = Wire()


class Scaled(flax.struct.PyTreeNode):
    """Rows of int8, each with its scale."""

    value: Array  # [..., N] int8
    scale: Array  # [...] float32


def is_message_node(node) -> bool:
    """Returns whether a node of a message is sent as one part."""
    return isinstance(node, Protos | Top | Scaled)


def _is_per_client(node) -> bool:
    return isinstance(node, PerClient)


def per_client_parts(broadcast: Tree) -> list[PerClient]:
    """Returns the `PerClient` parts of a broadcast."""
    parts = jax.tree.leaves(broadcast, is_leaf=_is_per_client)
    return [part for part in parts if _is_per_client(part)]


def for_client(broadcast: Tree, id: Array | int) -> Tree:
    """Returns the message that a client gets: its own row in place of `PerClient`."""

    def client_part(part):
        if not _is_per_client(part):
            return part
        row = id if part.row is None else jnp.asarray(part.row)[id]
        return jax.tree.map(lambda rows: jnp.asarray(rows)[row], part.value)

    return jax.tree.map(client_part, broadcast, is_leaf=_is_per_client)


def broadcast_sizes(message: Tree, packed: Tree) -> tuple[Array, Array]:
    """Returns the scalars and bytes of the message that a client gets.

    Both are arrays over the clients if the broadcast has `PerClient` parts.
    """

    def sizes(id):
        return scalars(for_client(message, id)), message_bytes(for_client(packed, id))

    parts = per_client_parts(message)
    if not parts:
        return sizes(0)
    by_client = jax.tree.leaves((parts[0].row, parts[0].value))[0]
    return jax.vmap(sizes)(jnp.arange(len(by_client)))


def pack(message: Tree, form: str) -> Tree:
    """Returns the arrays that are sent; rows that are not sent are zero.

    Args:
      message: tree of arrays, Protos and Top, of one sender.
      form: one of FORMATS.
    """

    def pack_part(part):
        if isinstance(part, Protos):
            present_C = part.count > 0
            mean_CD = jnp.where(present_C[:, None], part.mean, 0.0)
            count_C = part.count.astype(jnp.int32) if part.disclosed else present_C
            return part.replace(mean=to_wire_format(mean_CD, form), count=count_C)
        if isinstance(part, Top):
            value = jnp.where(_per_row(part.sent, part.value), part.value, 0.0)
            return part.replace(value=to_wire_format(value, form))
        return to_wire_format(part, form)

    return jax.tree.map(pack_part, message, is_leaf=is_message_node)


def unpack(packed: Tree) -> Tree:
    """Returns a message as its receiver gets it: values and counts in float32.

    Messages may be stacked on leading axes.
    """

    def unpack_part(part):
        if isinstance(part, Protos):
            count_C = part.count.astype(jnp.float32)
            return part.replace(mean=to_float32(part.mean), count=count_C)
        if isinstance(part, Top):
            return Top(to_float32(part.value), part.sent)
        return to_float32(part)

    return jax.tree.map(unpack_part, packed, is_leaf=is_message_node)


def roundtrip(message: Tree, form: str) -> Tree:
    """Packs and unpacks a message.

    The barrier keeps XLA from skipping a conversion there and back, as it may where
    excess precision is allowed.
    """
    return unpack(lax.optimization_barrier(pack(message, form)))


def to_wire_format(x: Array, form: str) -> Array | Scaled:
    """Converts floating-point values to a format; leaves other types as they are."""
    if not jnp.issubdtype(x.dtype, jnp.floating):
        return x
    if form != "int8":
        return x.astype(form)
    largest = jnp.max(jnp.abs(x), -1, initial=0.0) if x.ndim else jnp.abs(x)
    scale = jnp.where(largest < SMALLEST, 1.0, largest / 127)  # nan stays nan
    value = jnp.clip(jnp.round(x / _per_row(scale, x)), -127, 127)
    return Scaled(value.astype(jnp.int8), scale)


def to_float32(x: Array | Scaled) -> Array:
    """Converts floating-point values to float32; leaves other types as they are."""
    if isinstance(x, Scaled):
        return x.value.astype(jnp.float32) * _per_row(x.scale, x.value)
    return x.astype(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating) else x


def _per_row(a, x):
    """Adds a last axis to values per row of x; returns values per entry unchanged."""
    return a[..., None] if a.ndim < x.ndim else a


def message_bytes(packed: Tree) -> Array:
    """Returns the bytes of a packed message, header included; 0 without fields."""
    parts = jax.tree.leaves(packed, is_leaf=is_message_node)
    if not parts:
        return jnp.int32(0)
    return sum(map(_bytes, parts), start=jnp.int32(HEADER))


def _bytes(part):
    if isinstance(part, Protos):
        n = jnp.sum(part.count > 0)
        counts = n * COUNT if part.disclosed else 0
        return bitmap_bytes(len(part.count)) + counts + _sent_bytes(part.mean, n)
    if isinstance(part, Top):
        entries, n = len(part.sent), jnp.sum(part.sent)
        positions = jnp.minimum(bitmap_bytes(entries), n * index_bytes(entries))
        return COUNT + positions + _sent_bytes(part.value, n)
    return jnp.int32(array_bytes(part))


def _sent_bytes(x: Array | Scaled, n):
    """Returns the bytes of n entries of a vector or of n rows of a matrix."""
    if isinstance(x, Scaled):
        scales = n if x.scale.ndim else 1
        return _sent_bytes(x.value, n) + SCALE * scales
    return n * math.prod(x.shape[1:]) * x.dtype.itemsize


def bitmap_bytes(n: int) -> int:
    """Returns the bytes that hold n bits."""
    return -(-n // 8)


def index_bytes(n: int) -> int:
    """Returns the bytes of an index below n."""
    return max(1, bitmap_bytes(max(n - 1, 0).bit_length()))


def array_bytes(x: Array | Scaled) -> int:
    """Returns the bytes of all elements of an array."""
    if isinstance(x, Scaled):
        return x.value.size + SCALE * x.scale.size
    return bitmap_bytes(x.size) if x.dtype == bool else x.size * x.dtype.itemsize


def scalars(message: Tree) -> Array:
    """Counts the scalars of a message: those of present rows and of sent entries."""

    def part_scalars(part):
        if isinstance(part, Protos):
            return jnp.sum(part.count > 0) * part.mean.shape[-1]
        if isinstance(part, Top):
            return jnp.sum(part.sent) * (part.value.size // part.sent.size)
        return jnp.asarray(part.size)

    parts = jax.tree.leaves(message, is_leaf=is_message_node)
    return sum(map(part_scalars, parts), start=jnp.zeros((), jnp.int32))

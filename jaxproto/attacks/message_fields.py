"""Fields of the messages of a round, and what kind of thing each one holds.

Fields follow from shapes alone, without data: the bytes of a field are those of a
message that has every class.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxproto import wire
from jaxproto.core.method import Method
from jaxproto.core.types import Net, Protos, Spec, Statistics, Top, Tree
from jaxproto.lab.analysis import cost
from jaxproto.wire import COUNT, EXACT, Scaled, Wire

NOTHING, PRESENCE, COUNTS = "nothing", "class presence", "class counts"
NUMBERS, BITS = "whole numbers", "bits"  # the field's name says of what
MEANS, VALUES, ENTRIES = "class means", "trained values", "chosen entries"
FEATURES = "feature means and variances"  # of every channel before a BatchNorm


class Field(NamedTuple):
    """One array of a message, per client."""

    way: str  # up, down; before training: up first; before the first round: once
    name: str
    shape: tuple[int, ...]
    type: str  # on the wire
    bytes: int  # at most
    reveals: str  # of the client's data; the broadcast: of all clients together


def fields(way: str, packed: Tree) -> list[Field]:
    """Returns the fields of a packed message (shapes suffice)."""
    listed: list[Field] = []

    def is_part(node):
        return wire.is_message_node(node) or isinstance(node, Statistics)

    for path, part in jax.tree.leaves_with_path(packed, is_leaf=is_part):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        for inner, *rest in _arrays(part):
            full_name = ".".join(filter(None, (name, inner))) or "value"
            field = Field(way, full_name, *rest)
            listed.append(field._replace(reveals=NOTHING) if way == "once" else field)
    return listed


def _arrays(part):
    """Returns the values of a `Field` after `way`, for each array of a part."""
    if isinstance(part, Statistics):
        inside = fields("", part.value)
        return [f._replace(reveals=FEATURES)[1:] for f in inside]
    if isinstance(part, Protos):
        classes = part.count.shape
        arrays = [("presence", classes, "bit", wire.bitmap_bytes(*classes), PRESENCE)]
        if part.disclosed:
            arrays += [("count", classes, "int32", COUNT * classes[0], COUNTS)]
        return arrays + _values("mean", part.mean, MEANS)
    if isinstance(part, Top):
        entries, size = part.sent.shape, wire.bitmap_bytes(*part.sent.shape)
        number = ("entries", (), "uint32", COUNT, ENTRIES)
        positions = ("which", entries, "bits or indices", size, ENTRIES)
        return [number, positions, *_values("value", part.value)]
    return _values("", part)


def _values(name, x, reveals=VALUES):
    """Returns the arrays of values: their scales, if they have any, and themselves."""
    if isinstance(x, Scaled):
        scale = _values(f"{name}.scale".strip("."), x.scale, reveals)
        return scale + _values(name, x.value, reveals)
    if jnp.issubdtype(x.dtype, jnp.integer) and x.dtype != jnp.int8:
        reveals = NUMBERS
    if x.dtype == jnp.bool_:
        reveals = BITS
    kind = "bit" if x.dtype == jnp.bool_ else np.dtype(x.dtype).name
    return [(name, x.shape, kind, wire.array_bytes(x), reveals)]


def message_fields(
    method: Method,
    net: Net,
    spec: Spec,
    formats: Wire = EXACT,
    public_C=(),
    like: np.ndarray = cost.ONE_NUMBER,
    *,
    once: Tree = None,
) -> list[Field]:
    """Returns every field of the messages of a client's round.

    Args:
      once: message before the first round (`cost.sent_once`); by default `setup`.
    """
    once = method.setup if once is None else once
    count_KC = jax.ShapeDtypeStruct((1, spec.num_classes), jnp.float32)

    def messages_of_one(count_KC):
        inputs = {"public_C": public_C, "like": like}
        traffic = cost.round_messages(method, net, spec, count_KC, formats, **inputs)
        pre = traffic.pre_uploads if method.two_exchanges else ()
        up = jax.tree.map(lambda a: a[0], (pre, traffic.up))
        return wire.pack(once, formats.down), *up, traffic.down

    ways = ("once", "up first", "up", "down")
    messages = jax.eval_shape(messages_of_one, count_KC)
    pairs = zip(ways, messages, strict=True)
    return [field for pair in pairs for field in fields(*pair)]

"""What server and clients learn: every field that crosses the network.

From shapes alone, without data: the bytes of a field are those of a message in which
every class is there.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import rich.table
from rich.console import Console

from jaxproto import wire
from jaxproto.config import build
from jaxproto.method import Method, no_pre_upload
from jaxproto.report import cost
from jaxproto.types import Net, Protos, Spec, Statistics, Top, Tree
from jaxproto.wire import COUNT, EXACT, Scaled, Wire

NOTHING, PRESENCE, COUNTS = "nothing", "class presence", "class counts"
NUMBERS = "whole numbers"  # outside of prototypes: their name says of what
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
    """The fields of a packed message (shapes suffice)."""
    found = []
    for path, part in jax.tree.leaves_with_path(packed, is_leaf=_is_one):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        for inner, *rest in _inside(part):
            whole = ".".join(filter(None, (name, inner))) or "value"
            found.append(Field(way, whole, *rest))
    return found


def _is_one(node):
    return wire.is_part(node) or isinstance(node, Statistics)


def _inside(part):
    """Name, shape, type, bytes and what it reveals, for each array of a part."""
    if isinstance(part, Statistics):
        inside = fields("", part.value)
        return [f._replace(reveals=FEATURES)[1:] for f in inside]
    if isinstance(part, Protos):
        classes = part.count.shape
        found = [("presence", classes, "bit", wire.bits(*classes), PRESENCE)]
        if part.disclosed:
            found += [("count", classes, "int32", COUNT * classes[0], COUNTS)]
        return found + _values("mean", part.mean)
    if isinstance(part, Top):
        entries, most = part.sent.shape, wire.bits(*part.sent.shape)
        number = ("entries", (), "uint32", COUNT, NOTHING)
        which = ("which", entries, "bits or indices", most, NOTHING)
        return [number, which, *_values("value", part.value)]
    return _values("", part)


def _values(name, x):
    """Values, and before them their scales."""
    if isinstance(x, Scaled):
        return _values(f"{name}.scale".strip("."), x.scale) + _values(name, x.value)
    whole = jnp.issubdtype(x.dtype, jnp.integer) and x.dtype != jnp.int8
    reveals = NUMBERS if whole else NOTHING
    kind = "bit" if x.dtype == jnp.bool_ else np.dtype(x.dtype).name
    return [(name, x.shape, kind, wire.array_bytes(x), reveals)]


def message_fields(
    method: Method,
    net: Net,
    spec: Spec,
    formats: Wire = EXACT,
    public_C=(),
    like: np.ndarray = cost.ONE_NUMBER,
) -> list[Field]:
    """Every field of every message of one client's round; see `cost.traffic`."""
    count_KC = jax.ShapeDtypeStruct((1, spec.num_classes), jnp.float32)

    def one(count_KC):
        found = cost.traffic(method, net, spec, count_KC, formats, public_C, like)
        first = found.pre_uploads if method.pre_upload is not no_pre_upload else ()
        up = jax.tree.map(lambda a: a[0], (first, found.up))
        return wire.pack(method.setup, formats.down), *up, found.down

    ways = ("once", "up first", "up", "down")
    messages = jax.eval_shape(one, count_KC)
    pairs = zip(ways, messages, strict=True)
    return [field for pair in pairs for field in fields(*pair)]


def table(found: list[Field], title: str) -> rich.table.Table:
    """One line per field."""
    most = sum(f.bytes for f in found)
    caption = f"{most:,} bytes at most, and {wire.HEADER} of header per message."
    if not found:
        caption = "Nothing crosses the network."
    view = rich.table.Table(title=f"What crosses the network: {title}", caption=caption)
    for name in Field._fields:
        view.add_column(
            name, justify="right" if name == "bytes" else "left", overflow="fold"
        )
    for f in found:
        shape = "x".join(map(str, f.shape)) or "1"
        view.add_row(f.way, f.name, shape, f.type, f"{f.bytes:,}", f.reveals)
    return view


def show(config: ml_collections.ConfigDict, console: Console):
    """Prints the fields of a configured method."""
    exp = build.experiment(config, jax.default_backend())
    build.check(exp)
    net, public_C = exp.cohorts[0].net, cost.public_classes(exp)
    like = exp.dataset.x[0]
    found = message_fields(exp.method, net, exp.spec, exp.formats, public_C, like)
    console.print(table(found, config.method.name))

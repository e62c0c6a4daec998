"""What server and clients learn: every field that crosses the network.

Only what is made before training reveals nothing. All else is a function of clients'
data, exact or not, and KNOWN says what is known of it. None of it is protected by
secure aggregation, encryption or noise here.

From shapes alone, without data: the bytes of a field are those of a message in which
every class is there.
"""

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np

from jaxproto import wire
from jaxproto.config import build
from jaxproto.config.build import Experiment
from jaxproto.method import Method, no_pre_upload
from jaxproto.report import cost
from jaxproto.report.rendering import Value, View
from jaxproto.types import Net, Protos, Spec, Statistics, Top, Tree
from jaxproto.wire import COUNT, EXACT, Scaled, Wire

NOTHING, PRESENCE, COUNTS = "nothing", "class presence", "class counts"
NUMBERS, BITS = "whole numbers", "bits"  # their name says of what
MEANS, VALUES, ENTRIES = "class means", "trained values", "chosen entries"
FEATURES = "feature means and variances"  # of every channel before a BatchNorm
KNOWN = {  # what a field reveals -> what is known of it
    NOTHING: "made before training, without data.",
    PRESENCE: "exactly which classes the client holds in its training data (down: "
    "which any client holds).",
    COUNTS: "exactly how many training examples of each class the client has.",
    NUMBERS: "exact numbers, such as how many training examples the client has.",
    BITS: "one bit per entry, exactly.",
    MEANS: "means over a class's examples of features, logits or parts of them: "
    "functions of the data. Features can be inverted to inputs (Mahendran, Vedaldi, "
    "CVPR 2015), outputs too (Fredrikson, Jha, Ristenpart, CCS 2015); a mean of one "
    "example is that example's. Down: made of all clients' means.",
    VALUES: "weights or other numbers trained on the data, functions of it. What a "
    "step changes can be inverted to inputs (Zhu, Liu, Han, NeurIPS 2019; Geiping et "
    "al., NeurIPS 2020) and labels (Yin et al., CVPR 2021), and a model tells members "
    "of its training data apart (Shokri et al., S&P 2017). Down: made "
    "of all clients' uploads, or the server's own.",
    ENTRIES: "which of the trained values are sent, and how many: where a choice "
    "depends on them, a function of the data too.",
    FEATURES: "mean and variance of each channel over the client's data, exactly. "
    "Gradient inversion is stronger with them (Yin et al., CVPR 2021).",
}


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
    found: list[Field] = []
    for path, part in jax.tree.leaves_with_path(packed, is_leaf=_is_one):
        name = jax.tree_util.keystr(path, simple=True, separator=".")
        for inner, *rest in _inside(part):
            whole = ".".join(filter(None, (name, inner))) or "value"
            field = Field(way, whole, *rest)
            found.append(field._replace(reveals=NOTHING) if way == "once" else field)
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
        return found + _values("mean", part.mean, MEANS)
    if isinstance(part, Top):
        entries, most = part.sent.shape, wire.bits(*part.sent.shape)
        number = ("entries", (), "uint32", COUNT, ENTRIES)
        which = ("which", entries, "bits or indices", most, ENTRIES)
        return [number, which, *_values("value", part.value)]
    return _values("", part)


def _values(name, x, reveals=VALUES):
    """Values, and before them their scales."""
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


def view(config: ml_collections.ConfigDict, every: bool) -> View:
    """The fields of a configured method, or of every method.

    Methods other than the configured one have the defaults of their fields.
    """
    exp = build.experiment(config, jax.default_backend())
    if not every:
        build.check(exp)
        return table({config.method.name: _fields_of(exp)}, config.method.name)
    made = cost.each_method(config, exp)
    found = {k: v if isinstance(v, str) else _fields_of(v) for k, v in made.items()}
    return table(found, "every method", named=True)


def _fields_of(exp: Experiment) -> list[Field]:
    net, public_C = exp.cohorts[0].net, cost.public_classes(exp)
    like = exp.dataset.x[0]
    return message_fields(exp.method, net, exp.spec, exp.formats, public_C, like)


def table(
    found: Mapping[str, list[Field] | str], title: str, named: bool = False
) -> View:
    """One line per field.

    Args:
      found: of each method, or why it does not fit.
      named: the first column is the method.
    """
    there = {k: v for k, v in found.items() if not isinstance(v, str)}
    rows: list[tuple[Value, ...]] = []
    labels = {f.reveals for v in there.values() for f in v}
    for name, listed in there.items():
        for f in listed:
            shape = "x".join(map(str, f.shape)) or "1"
            first = (name,) * named
            rows.append((*first, f.way, f.name, shape, f.type, f.bytes, f.reveals))
    most = sum(f.bytes for v in there.values() for f in v)
    about = f"{most:,} bytes at most, and {wire.HEADER} of header per message."
    if not rows:
        about = "Nothing crosses the network."
    notes = [about] * (not named or not rows)
    notes += [f"{label}: {known}" for label, known in KNOWN.items() if label in labels]
    notes += [f"{k}: {why}" for k, why in found.items() if isinstance(why, str)]
    head = ("method",) * named + Field._fields
    return View(f"What crosses the network: {title}", head, tuple(rows), tuple(notes))

"""The wire: what arrives in the jitted round and how many bytes it takes, bytes of
messages there and back, and damage that is always noticed."""

import functools
import re
import zlib
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import toys
from support.every import every
from support.fast_jit import jit, jit_to_the_bit
from support.wire_messages import every_kind

from jaxproto import wire
from jaxproto.core.types import PerClient, Protos, Top
from jaxproto.errors import UserError
from jaxproto.methods.fedproto import fedproto
from jaxproto.round import federation
from jaxproto.wire import Scaled, Wire, codec
from jaxproto.wire.codec import CodecMismatch, WireError


def row(tree, k):
    return jax.tree.map(lambda leaf: leaf[k], tree)


def same_bits(a, b) -> bool:
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    return all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in leaves)


@functools.cache
def journey(form):
    """A message -> what arrives, what is sent, and its bytes; as in the round."""

    @jit_to_the_bit
    def inside(sent):
        packed = wire.pack(sent, form)
        return wire.roundtrip(sent, form), packed, wire.message_bytes(packed)

    return lambda seed=0: jax.device_get(inside(every_kind(seed)))


@pytest.mark.long
@every(wire.FORMATS)
def test_rounding_in_the_round_is_that_of_the_bytes_bit_for_bit(form):
    """Packed, encoded, decoded, unpacked; stacked messages as one by one."""

    @jit_to_the_bit
    def both(sent):
        packed = jax.vmap(partial(wire.pack, form=form))(sent)
        return wire.unpack(jax.lax.optimization_barrier(packed)), packed

    stacked = jax.tree.map(lambda *a: np.stack(a), every_kind(0), every_kind(1))
    together = jax.device_get(both(stacked))
    for k in range(2):
        arrived, packed, size = journey(form)(k)
        codec.check_roundtrip(packed, int(size), form)
        codec.check_broadcast(every_kind(k), form)
        assert same_bits(row(together, k), (arrived, packed))
        assert jax.tree.structure(arrived) == jax.tree.structure(every_kind())


def test_float32_changes_nothing_but_what_is_absent_or_not_disclosed():
    sent, got = every_kind(), journey("float32")()[0]
    for name in ("hidden", "shown"):
        here = sent[name].count[:, None] > 0
        sent[name] = sent[name].replace(mean=np.where(here, sent[name].mean, 0))
    sent["hidden"] = sent["hidden"].replace(count=np.sign(sent["hidden"].count))
    value = np.where(sent["top"].sent, sent["top"].value, 0)
    sent["top"] = sent["top"].replace(value=value)
    assert same_bits(got, sent)


def arrived(x, form):
    return np.asarray(jit(wire.roundtrip, static_argnums=1)(np.float32(x), form))


def test_int8_is_off_by_half_a_step_at_most_and_keeps_the_largest():
    """Rows without size arrive as zeros."""
    x = np.random.default_rng(0).normal(size=(6, 50)).astype(np.float32)
    got, most = arrived(x, "int8"), np.abs(x).max(1, keepdims=True)
    assert np.all(np.abs(got - x) <= most / 127 / 2 * 1.0001)
    np.testing.assert_allclose(got[np.abs(x) == most], x[np.abs(x) == most], rtol=1e-6)
    assert np.any(got != x)
    x = np.float32([[0.0, 0.0], [1e-38, -1e-38], [3e-35, 0.0]])
    got = arrived(x, "int8")
    assert np.all(got[:2] == 0)
    np.testing.assert_allclose(got[2], x[2], rtol=1e-6)


@every(wire.FORMATS)
def test_a_number_that_is_not_finite_does_not_arrive_as_one(form):
    for bad in (np.nan, np.inf, -np.inf):
        assert not np.all(np.isfinite(arrived([1.0, bad, -2.0], form)))
    assert np.isinf(arrived([1e5, 0.0, 0.0], "float16")[0])


def test_a_round_trains_with_the_rounded_broadcast_and_counts_the_bytes_of_uploads():
    """FedProto with int8 up and float16 down."""
    method, (group,) = fedproto(toys.SPEC), toys.cohorts(*toys.HOM)
    examples, rows = toys.pool_and_rows()
    shards, key = toys.shard(rows, group.ids), jax.random.key(3)

    @jit
    def run(server):
        participants = toys.EVERYONE(key, 6, 0)
        formats = Wire("int8", "float16")
        down = federation.broadcast(method, server, formats).message
        given = (method, toys.LOCAL, formats, participants, down, key)
        exchange = federation.RoundInputs(*given)
        return federation.train_cohort(exchange, group, clients, examples, shards)

    start = toys.starter(method, toys.HOM, toys.LOCAL)
    server, (clients,) = start(key, [toys.counts(examples, rows, group.ids)])
    proto = jax.random.normal(key, server.protos.mean.shape)
    server = server._replace(protos=Protos(proto, jnp.ones(len(proto))))
    rounded = jit(partial(wire.roundtrip, form="float16"))(server)
    further = jax.tree.map(lambda a: a * 1.01, server)
    a, b, c = (run(s)[0].params for s in (server, rounded, further))
    assert toys.gap(server, rounded) > 0
    assert toys.gap(a, b) == 0 and toys.gap(a, c) > 1e-6
    _, uploads, report = jax.device_get(run(server))
    for k, size in enumerate(report.bytes):
        one = row(uploads.up, k)
        codec.check_roundtrip(one, int(size), "int8")
    rows = uploads.up.count.sum(1)
    assert report.bytes.tolist() == (12 + 1 + rows * (8 + 4)).tolist()


def refused(message):
    assert issubclass(WireError, UserError)
    return pytest.raises(WireError, match=re.escape(message))


KINDS = ["protos", "disclosed", "top", "floats", "scalar", "bools", "ints"]


def values(rng, form, *shape, here=None):
    """Random values as they travel; zeros, rows of scale 1, where nothing is sent."""
    rows, here = len(shape) == 2, np.ones(shape[:1], bool) if here is None else here
    there = here[:, None] if rows else here
    if form != "int8":
        x = np.where(there, rng.normal(size=shape), 0).astype(np.float32)
        return x.astype(jax.numpy.dtype(form))
    whole = np.where(there, rng.integers(-127, 128, shape), 0).astype(np.int8)
    scale = rng.random(shape[:-1])
    return Scaled(whole, np.float32(np.where(here, scale, 1) if rows else scale))


def part(rng, kind, form):
    n, d = int(rng.choice([1, 8, 9, 300, 70_000])), int(rng.choice([1, 5]))
    here = rng.random(n) < rng.choice([0.0, 0.02, 0.5, 1.0])
    if kind in ("protos", "disclosed"):
        count = here * rng.integers(1, 2**31 - 1, n) if kind == "disclosed" else here
        count = count.astype(np.int32 if kind == "disclosed" else bool)
        mean = values(rng, form, n, d, here=here)
        return Protos(mean, count, kind == "disclosed")
    if kind == "top":
        return Top(values(rng, form, n, here=here), here)
    if kind == "bools":
        return rng.random((n, d)) < 0.5
    if kind == "ints":
        return rng.integers(0, 2**16, (n,)).astype(rng.choice([np.uint16, np.int32]))
    return values(rng, form) if kind == "scalar" else values(rng, form, n, d)


@st.composite
def messages(draw):
    form = draw(st.sampled_from(wire.FORMATS))
    kinds = draw(st.lists(st.sampled_from(KINDS), max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {f"{i}": part(rng, k, form) for i, k in enumerate(kinds)}, form


def shapes(packed):
    """Returns the shapes and types that the receiver knows beforehand."""
    return jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), packed)


def length(one) -> int:
    """The formula of a part's bytes, written from the documentation."""
    if isinstance(one, Protos):
        rows, scaled = int((one.count > 0).sum()), isinstance(one.mean, Scaled)
        mean = one.mean.value if scaled else one.mean
        row = mean.shape[1] * mean.itemsize + 4 * scaled + 4 * one.disclosed
        return (len(one.count) + 7) // 8 + rows * row
    if isinstance(one, Top):
        n, total, scaled = one.sent.sum(), len(one.sent), isinstance(one.value, Scaled)
        width = 1 if total <= 256 else 2 if total <= 65536 else 3
        item = 1 if scaled else one.value.itemsize
        return 4 + min((total + 7) // 8, n * width) + 4 * scaled + n * item
    if isinstance(one, Scaled):
        return one.value.size + 4 * one.scale.size
    return (one.size + 7) // 8 if one.dtype == bool else one.nbytes


@settings(deadline=None, max_examples=60)
@given(messages(), st.data())
def test_what_arrives_is_what_was_sent_in_bytes_by_the_formula_or_an_error(sent, data):
    """Bit for bit; a message that is changed, cut off or too long is an error."""
    packed, form = sent
    good = codec.encode(packed, form)
    got = codec.decode(good, shapes(packed), form)
    assert jax.tree.structure(got) == jax.tree.structure(packed)
    for a, b in zip(jax.tree.leaves(packed), jax.tree.leaves(got), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    header = 12 if packed else 0
    assert len(good) == header + sum(map(length, packed.values()))
    assert len(good) == int(wire.message_bytes(packed))
    wrong = [good + data.draw(st.binary(min_size=1, max_size=9))]
    if packed:
        changed = bytearray(good)
        at = data.draw(st.integers(0, len(good) - 1))
        changed[at] ^= data.draw(st.integers(1, 255))
        short = good[: data.draw(st.integers(0, len(good) - 1))]
        wrong += [bytes(changed), short]
    for message in wrong:
        with pytest.raises(WireError):
            codec.decode(message, shapes(packed), form)


def test_a_client_gets_its_own_row_of_a_broadcast():
    for row, want in ((None, [0, 1, 2]), ([2, 2, 0], [2, 2, 0])):
        down = {"a": PerClient(np.arange(3.0), row), "b": 7}
        got = [wire.for_client(down, id) for id in range(3)]
        assert got == [{"a": a, "b": 7} for a in want]


def test_fields_of_equal_bytes_are_told_apart():
    data = codec.encode({"a": np.zeros((2, 3), np.float32)}, "float32")
    for like in ({"a": np.zeros((3, 2), np.float32)}, {"b": np.zeros((2, 3), "f4")}):
        with refused("differ in method, number of classes or"):
            codec.decode(data, like, "float32")


def test_another_version_and_another_format_are_refused():
    """More: `support/hostile.py`."""
    one = np.ones(1, np.float32)
    data = codec.encode(one, "float32")
    with refused("begins with b'JP', version 7"):
        codec.decode(data[:2] + b"\x07" + data[3:], one, "float32")
    with refused("is in format float32, expected is float16"):
        codec.decode(data, one, "float16")
    assert codec.encode((), "int8") == b"" and codec.decode(b"", (), "int8") == ()
    with refused("1 bytes came where the message has no"):
        codec.decode(b"x", (), "int8")


def sealed(payload, like):
    """A message with this payload and the checksum that belongs to it."""
    start = codec.START.pack(codec.MAGIC, codec.VERSION, 0, len(payload))
    crc = zlib.crc32(payload, zlib.crc32(start, zlib.crc32(codec._schema(like))))
    return start + codec.CHECKSUM.pack(crc) + payload


PROTOS = Protos(np.zeros((2, 1), np.float32), np.zeros(2, np.int32), True)
TOP = Top(np.zeros(300, np.float32), np.zeros(300, bool))


def number(*n):
    return np.asarray(n, "<u4").tobytes()


def at(*index):
    return np.asarray(index, "<u2").tobytes()


PAYLOADS = [
    (np.zeros(3, bool), b"\x08", "bitmap of 3 bits has more bits set behind them"),
    (PROTOS, b"\x01" + number(0, 0), "a class that is there has a count below 1"),
    (PROTOS, b"\x01" + number(1), "payload ends 4 bytes too early"),
    (PROTOS, b"\x00" + number(1), "payload has 4 bytes after its last field"),
    (TOP, number(301), "301 entries are announced for a vector of 300"),
    (TOP, number(150) + bytes(38 + 600), "bitmap has 0 entries, not 150"),
    (TOP, number(2) + at(4, 300) + bytes(8), "must ascend and stay below 300"),
    (TOP, number(2) + at(4, 4) + bytes(8), "must ascend and stay below 300"),
]


@every(PAYLOADS)
def test_a_wrong_payload_with_a_right_checksum_is_an_error(like, payload, message):
    with refused(message):
        codec.decode(sealed(payload, like), like, "float32")
    right = sealed(number(2) + at(4, 299) + np.asarray([5, 6], "<f4").tobytes(), TOP)
    got = codec.decode(right, TOP, "float32")
    assert np.flatnonzero(got.sent).tolist() == [4, 299]


def test_the_check_fails_on_a_wrong_size_and_on_values_that_do_not_arrive():
    packed = {"up": Protos(np.ones((2, 3), np.float32), np.array([True, True]))}
    codec.check_roundtrip(packed, 12 + 1 + 24, "float32")
    with pytest.raises(CodecMismatch, match="counted as 36 bytes is 37 bytes long"):
        codec.check_roundtrip(packed, 36, "float32")
    absent = {"up": packed["up"].replace(count=np.array([True, False]))}
    with pytest.raises(CodecMismatch, match=re.escape("['up'].mean")):
        codec.check_roundtrip(absent, 12 + 1 + 12, "float32")

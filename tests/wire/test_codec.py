"""Bytes of messages: the round trip, and damage that is always noticed."""

import re
import zlib

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jaxproto import wire
from jaxproto.errors import UserError
from jaxproto.types import Protos, Top
from jaxproto.wire import Scaled, codec
from jaxproto.wire.codec import Mismatch, WireError

every_format = pytest.mark.parametrize("form", wire.FORMATS)
KINDS = ["protos", "disclosed", "top", "floats", "scalar", "bools", "ints"]


def values(rng, form, *shape):
    """Random values as they travel."""
    x = rng.normal(size=shape).astype(np.float32)
    if form != "int8":
        return x.astype(jax.numpy.dtype(form))
    whole = rng.integers(-127, 128, shape).astype(np.int8)
    return Scaled(whole, rng.random(shape[:-1]).astype(np.float32))


def masked(x, here):
    """Zeros, of scale 1, where nothing is sent."""
    if isinstance(x, Scaled) and x.scale.ndim:
        return Scaled(masked(x.value, here), np.where(here, x.scale, np.float32(1)))
    if isinstance(x, Scaled):
        return Scaled(masked(x.value, here), x.scale)
    x = x.copy()
    x[~here] = 0
    return x


def part(rng, kind, form):
    """A random packed part of a message."""
    n, d = int(rng.choice([1, 8, 9, 300])), int(rng.choice([1, 5]))
    here = rng.random(n) < rng.choice([0.0, 0.05, 0.5, 1.0])
    if kind in ("protos", "disclosed"):
        count = here * rng.integers(1, 2**31 - 1, n) if kind == "disclosed" else here
        count = count.astype(np.int32 if kind == "disclosed" else bool)
        return Protos(masked(values(rng, form, n, d), here), count, kind == "disclosed")
    if kind == "top":
        return Top(masked(values(rng, form, n), here), here)
    if kind == "bools":
        return rng.random((n, d)) < 0.5
    if kind == "ints":
        return rng.integers(0, 2**16, (n,)).astype(rng.choice([np.uint16, np.int32]))
    return values(rng, form) if kind == "scalar" else values(rng, form, n, d)


@st.composite
def messages(draw, least=0):
    form = draw(st.sampled_from(wire.FORMATS))
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=least, max_size=4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    return {f"{i}": part(rng, k, form) for i, k in enumerate(kinds)}, form


def shapes(packed):
    """What the receiver knows beforehand."""
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
        width = 1 if total <= 256 else 2
        item = 1 if scaled else one.value.itemsize
        return 4 + min((total + 7) // 8, n * width) + 4 * scaled + n * item
    if isinstance(one, Scaled):
        return one.value.size + 4 * one.scale.size
    return (one.size + 7) // 8 if one.dtype == bool else one.nbytes


@settings(deadline=None, max_examples=60)
@given(messages())
def test_what_arrives_is_what_was_sent_bit_for_bit(sent):
    packed, form = sent
    data = codec.encode(packed, form)
    got = codec.decode(data, shapes(packed), form)
    assert jax.tree.structure(got) == jax.tree.structure(packed)
    for a, b in zip(jax.tree.leaves(packed), jax.tree.leaves(got), strict=True):
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()


@settings(deadline=None, max_examples=40)
@given(messages(least=1))
def test_the_size_is_the_formula_and_the_header(sent):
    packed, form = sent
    data = codec.encode(packed, form)
    assert len(data) == 12 + sum(map(length, packed.values()))
    assert len(data) == int(wire.size(packed))


@settings(deadline=None, max_examples=60)
@given(messages(least=1), st.data())
def test_damage_of_any_byte_is_an_error(sent, data):
    packed, form = sent
    good = bytearray(codec.encode(packed, form))
    at = data.draw(st.integers(0, len(good) - 1))
    good[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        codec.decode(bytes(good), shapes(packed), form)


@settings(deadline=None, max_examples=60)
@given(messages(least=1), st.data())
def test_a_message_cut_off_or_too_long_is_an_error(sent, data):
    packed, form = sent
    good = codec.encode(packed, form)
    short = good[: data.draw(st.integers(0, len(good) - 1))]
    long = good + data.draw(st.binary(min_size=1, max_size=9))
    for wrong in (short, long):
        with pytest.raises(WireError):
            codec.decode(wrong, shapes(packed), form)


@settings(deadline=None, max_examples=30)
@given(messages(least=1), messages(least=1))
def test_a_message_of_other_fields_or_format_is_an_error(sent, expected):
    (packed, form), (other, other_form) = sent, expected
    same = codec._schema(packed) == codec._schema(other) and form == other_form
    if not same:
        with pytest.raises(WireError):
            codec.decode(codec.encode(packed, form), shapes(other), other_form)


def test_fields_of_equal_bytes_are_told_apart():
    data = codec.encode({"a": np.zeros((2, 3), np.float32)}, "float32")
    for like in ({"a": np.zeros((3, 2), np.float32)}, {"b": np.zeros((2, 3), "f4")}):
        with pytest.raises(WireError, match="differ in method, number of classes or"):
            codec.decode(data, like, "float32")


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, 0, r"begins with b'\x00P', version 1; expected are b'JP', version 1"),
        (2, 7, "begins with b'JP', version 7"),
        (3, 1, "is in format float16, expected is float32"),
        (3, 9, "is in format number 9, expected is float32"),
        (4, 3, "payload should be 3 bytes, but 4 are there"),
        (8, 1, "the checksum is wrong"),
    ],
)
def test_what_is_wrong_with_a_header_is_named(at, value, message):
    data = bytearray(codec.encode(np.ones(1, np.float32), "float32"))
    data[at] = value
    with pytest.raises(WireError, match=re.escape(message)):
        codec.decode(bytes(data), np.ones(1, np.float32), "float32")
    with pytest.raises(WireError, match="5 bytes are less than the header's 12"):
        codec.decode(bytes(data[:5]), np.ones(1, np.float32), "float32")


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


@pytest.mark.parametrize(
    ("like", "payload", "message"),
    [
        (np.zeros(3, bool), b"\x08", "bitmap of 3 bits has more bits set behind them"),
        (PROTOS, b"\x04", "bitmap of 2 bits has more bits set behind them"),
        (PROTOS, b"\x01" + number(0, 0), "a class that is there has a count below 1"),
        (PROTOS, b"\x01" + number(1), "payload ends 4 bytes too early"),
        (PROTOS, b"\x00" + number(1), "payload has 4 bytes after its last field"),
        (TOP, number(301), "301 entries are announced for a vector of 300"),
        (TOP, number(150) + bytes(38 + 600), "bitmap has 0 entries, not 150"),
        (TOP, number(2) + at(4, 300) + bytes(8), "must ascend and stay below 300"),
        (TOP, number(2) + at(4, 4) + bytes(8), "must ascend and stay below 300"),
        (TOP, number(2) + at(4, 3) + bytes(8), "must ascend and stay below 300"),
    ],
)
def test_a_wrong_payload_with_a_right_checksum_is_an_error(like, payload, message):
    with pytest.raises(WireError, match=message):
        codec.decode(sealed(payload, like), like, "float32")


def test_a_right_payload_passes_where_the_wrong_ones_fail():
    values = np.asarray([5, 6], "<f4").tobytes()
    data = sealed(number(2) + at(4, 299) + values, TOP)
    got = codec.decode(data, TOP, "float32")
    assert np.flatnonzero(got.sent).tolist() == [4, 299]
    assert got.value[[4, 299]].tolist() == [5, 6] and got.value.sum() == 11


def test_no_fields_are_no_bytes():
    assert codec.encode((), "int8") == b"" and codec.decode(b"", (), "int8") == ()
    assert int(wire.size(())) == 0
    with pytest.raises(WireError, match="1 bytes came where the message has no"):
        codec.decode(b"x", (), "int8")


def test_a_wire_error_is_an_error_in_the_users_words():
    assert issubclass(WireError, UserError)


def test_the_check_fails_on_a_wrong_size_and_on_values_that_do_not_arrive():
    packed = {"up": Protos(np.ones((2, 3), np.float32), np.array([True, True]))}
    codec.check(packed, 12 + 1 + 24, "float32")
    with pytest.raises(Mismatch, match="counted as 36 bytes is 37 bytes long"):
        codec.check(packed, 36, "float32")
    absent = {"up": packed["up"].replace(count=np.array([True, False]))}
    with pytest.raises(Mismatch, match=re.escape("['up'].mean")):
        codec.check(absent, 12 + 1 + 12, "float32")


def test_nothing_sent_passes_only_if_it_is_nothing():
    codec.check(np.zeros(3, np.float32), 0, "float32")
    with pytest.raises(Mismatch, match="counted as 0 bytes is 24 bytes long"):
        codec.check(np.ones(3, np.float32), 0, "float32")


@every_format
def test_broadcasts_of_every_kind_pass_the_check(form):
    rng = np.random.default_rng(0)
    mean, count = rng.normal(size=(4, 3)).astype("f4"), np.array([2.0, 0, 1, 5])
    top = Top(rng.normal(size=50).astype("f4"), np.arange(50) % 7 == 0)
    down = (Protos(mean, count), Protos(mean, count, True), top, mean, mean[0, 0])
    codec.check_broadcast(down, form)

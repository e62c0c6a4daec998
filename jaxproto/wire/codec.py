"""Codec between packed messages (`wire.pack`) and the bytes that are sent.

A message is a header of `wire.HEADER` bytes and the payload, little endian:

    magic "JP" | version, 1 byte | format, 1 byte | payload length, 4 | CRC-32, 4

The checksum covers what both sides know (the fields with shapes and types, and on nodes
the round and the sender), the rest of the header and the payload. A message without
fields has no bytes. The payload has the parts of the message one after the other:
- Protos: presence bitmap, counts of the present rows as int32 if disclosed, the scales
  of the present rows if int8, their values.
- Top: number of entries or rows as uint32, then a bitmap or ascending indices of them,
  whichever is smaller (the bitmap if equal), the scale or scales if int8, the values.
- arrays: booleans as bits, other types element by element; int8 scales first.

Bits fill each byte from its lowest bit; unused bits are 0.
"""

import math
import struct
import zlib

import jax
import numpy as np

from jaxproto import wire
from jaxproto.core.types import Protos, Top, Tree
from jaxproto.errors import UserError
from jaxproto.wire import Scaled

MAGIC, VERSION = b"JP", 1
START = struct.Struct("<2sBBI")  # the header without its checksum
CHECKSUM = struct.Struct("<I")


class WireError(UserError):
    """Error of bytes that are not an undamaged message of the expected fields."""


class CodecMismatch(AssertionError):
    """Error of a codec that disagrees with `wire` on values or size."""


def encode(packed: Tree, form: str, about: bytes = b"") -> bytes:
    """Encodes one sender's packed message.

    Args:
      packed: result of `wire.pack`, as numpy arrays.
      form: format of `packed`, one of `wire.FORMATS`.
      about: bytes of round and sender, which only the checksum covers.
    """
    parts = jax.tree.leaves(packed, is_leaf=wire.is_message_node)
    if not parts:
        return b""
    payload = b"".join(map(_write, parts))
    start = START.pack(MAGIC, VERSION, wire.FORMATS.index(form), len(payload))
    return start + CHECKSUM.pack(_checksum(packed, start, payload, about)) + payload


def decode(data: bytes, like: Tree, form: str, about: bytes = b"") -> Tree:
    """Decodes a packed message.

    Args:
      data: bytes from `encode`.
      like: packed message with the expected shapes and types, as from `jax.eval_shape`.
      form, about: as in `encode`.

    Raises:
      WireError: the bytes are damaged, cut off, too many, of another version or format,
        of other fields, or of another round or sender.
    """
    parts, structure = jax.tree.flatten(like, is_leaf=wire.is_message_node)
    if not parts:
        if data:
            raise WireError(f"{len(data)} bytes came where the message has no fields.")
        return like
    reader = Reader(_payload(data, like, form, about))
    fields = [_read(part, reader) for part in parts]
    if reader.left:
        raise WireError(f"the payload has {reader.left} bytes after its last field.")
    return jax.tree.unflatten(structure, fields)


def check_roundtrip(packed: Tree, size: int, form: str):
    """Checks that one message survives encoding and decoding.

    Args:
      packed: result of `wire.pack`; all zero if the client sent nothing.
      size: bytes that the round counted for the message; 0 if none was sent.
      form: as in `encode`.

    Raises:
      CodecMismatch: names the field that did not survive, or both sizes.
    """
    packed = jax.device_get(packed)
    if not size and not any(np.any(a) for a in jax.tree.leaves(packed)):
        return
    data = encode(packed, form)
    if (n := len(data)) != size:
        raise CodecMismatch(f"a message counted as {size} bytes is {n} bytes long.")
    decoded = jax.tree.leaves(decode(data, packed, form))
    for (path, a), b in zip(jax.tree.leaves_with_path(packed), decoded, strict=True):
        if _raw(a) != _raw(b):
            name = jax.tree_util.keystr(path) or "the message"
            raise CodecMismatch(f"{name} is {b} after its journey in {form}, was {a}.")


def check_broadcast(down: Tree, form: str):
    """Checks the broadcast that client 0 gets by `check_roundtrip`."""
    packed = wire.for_client(wire.pack(down, form), 0)
    check_roundtrip(packed, int(wire.message_bytes(packed)), form)


class Reader:
    """Sequential reader of a payload."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    @property
    def left(self) -> int:
        """Number of bytes that are not yet read."""
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        """Reads the next `size` bytes."""
        if size > self.left:
            raise WireError(f"the payload ends {size - self.left} bytes too early.")
        self.at += size
        return self.data[self.at - size : self.at]

    def array(self, shape, dtype) -> np.ndarray:
        """Reads the elements of an array."""
        dtype, count = np.dtype(dtype), math.prod(shape)
        if dtype.kind == "b":
            return self.bits(count).reshape(shape)
        word = np.dtype(f"<u{dtype.itemsize}")
        words = np.frombuffer(self.take(count * word.itemsize), word)
        return words.astype(word.newbyteorder("=")).view(dtype).reshape(shape)

    def bits(self, count: int) -> np.ndarray:
        """Reads the next bits, [count] bool."""
        byte = np.frombuffer(self.take(wire.bitmap_bytes(count)), np.uint8)
        bit = np.unpackbits(byte, bitorder="little").astype(bool)
        if bit[count:].any():
            raise WireError(f"a bitmap of {count} bits has more bits set behind them.")
        return bit[:count]


def _payload(data, like, form, about):
    """Returns the payload of a message; raises WireError if it is damaged."""
    if len(data) < wire.HEADER:
        raise WireError(f"{len(data)} bytes are less than the header's {wire.HEADER}.")
    start, payload = data[: START.size], data[wire.HEADER :]
    magic, version, number, length = START.unpack(start)
    if (magic, version) != (MAGIC, VERSION):
        raise WireError(
            f"the message begins with {magic!r}, version {version}; expected are "
            f"{MAGIC!r}, version {VERSION}."
        )
    if number != wire.FORMATS.index(form):
        name = dict(enumerate(wire.FORMATS)).get(number, f"number {number}")
        raise WireError(f"the message is in format {name}, expected is {form}.")
    if length != (n := len(payload)):
        raise WireError(f"the payload should be {length} bytes, but {n} are there.")
    (checksum,) = CHECKSUM.unpack(data[START.size : wire.HEADER])
    if checksum != _checksum(like, start, payload, about):
        raise WireError(
            "the checksum is wrong: the message was damaged, is of another round or "
            "sender, or both sides differ in method, number of classes or feature "
            "dimension."
        )
    return payload


def _checksum(packed, start, payload, about):
    known = zlib.crc32(_schema(packed), zlib.crc32(about))
    return zlib.crc32(payload, zlib.crc32(start, known))


def _schema(packed) -> bytes:
    """Returns a line per field, with its path, kind, shapes and types."""

    def line(path, part):
        arrays = [(a.shape, np.dtype(a.dtype).name) for a in jax.tree.leaves(part)]
        kind = type(part).__name__ if wire.is_message_node(part) else "array"
        disclosed = getattr(part, "disclosed", False)
        return f"{jax.tree_util.keystr(path)} {kind} {disclosed} {arrays}"

    fields = jax.tree.leaves_with_path(packed, is_leaf=wire.is_message_node)
    return "\n".join(line(path, part) for path, part in fields).encode()


def _raw(x) -> bytes:
    """Returns the elements of an array, little endian; booleans as bits."""
    x = np.ascontiguousarray(x)
    if x.dtype == bool:
        return np.packbits(x.ravel(), bitorder="little").tobytes()
    word = np.dtype(f"u{x.dtype.itemsize}")
    return x.view(word).astype(word.newbyteorder("<")).tobytes()


def _masked(x, mask):
    """Returns the bytes of the masked rows or entries, int8 scales first."""
    if isinstance(x, Scaled):
        scale = x.scale[mask] if x.scale.ndim else x.scale
        return _raw(scale) + _raw(x.value[mask])
    return _raw(x[mask])


def _write(part) -> bytes:
    if isinstance(part, Protos):
        present_C = np.asarray(part.count) > 0
        count = _raw(part.count[present_C]) if part.disclosed else b""
        return _raw(present_C) + count + _masked(part.mean, present_C)
    if isinstance(part, Top):
        number = _raw(np.uint32(part.sent.sum()))
        return number + _positions(part.sent) + _masked(part.value, part.sent)
    if isinstance(part, Scaled):
        return _raw(part.scale) + _raw(part.value)
    return _raw(part)


def _as_indices(number, entries):
    """Returns whether indices take fewer bytes than a bitmap."""
    return number * wire.index_bytes(entries) < wire.bitmap_bytes(entries)


def _positions(sent_P) -> bytes:
    """Returns the positions of the sent entries, as indices or as a bitmap."""
    index, width = np.flatnonzero(sent_P), wire.index_bytes(len(sent_P))
    if not _as_indices(len(index), len(sent_P)):
        return _raw(sent_P)
    return index.astype("<u8").view(np.uint8).reshape(-1, 8)[:, :width].tobytes()


def _read(part, reader):
    if isinstance(part, Protos):
        return _read_protos(part, reader)
    if isinstance(part, Top):
        return _read_top(part, reader)
    if isinstance(part, Scaled):
        scale = reader.array(part.scale.shape, np.float32)
        return Scaled(reader.array(part.value.shape, np.int8), scale)
    return reader.array(part.shape, part.dtype)


def _read_protos(part, reader):
    present_C = reader.bits(len(part.count))
    rows, count = int(present_C.sum()), present_C
    if part.disclosed:
        count = np.zeros(len(present_C), np.int32)
        count[present_C] = reader.array((rows,), np.int32)
        if (count[present_C] <= 0).any():
            raise WireError("a class that is there has a count below 1.")
    return part.replace(mean=_read_rows(part.mean, present_C, reader), count=count)


def _read_rows(like, mask, reader):
    """Reads the masked rows or entries of an array; the others are zero."""
    if not isinstance(like, Scaled):
        x = np.zeros(like.shape, like.dtype)
        x[mask] = reader.array((int(mask.sum()), *like.shape[1:]), like.dtype)
        return x
    scale = np.ones(like.scale.shape, np.float32)  # 1 for zeros, as `to_wire_format`
    rows = mask if scale.ndim else ()
    scale[rows] = reader.array(scale[rows].shape, np.float32)
    return Scaled(_read_rows(like.value, mask, reader), scale)


def _read_top(part, reader):
    entries = len(part.sent)
    number = int(reader.array((), np.uint32))
    if number > entries:
        raise WireError(f"{number} entries are announced for a vector of {entries}.")
    sent_P = _read_positions(number, entries, reader)
    return Top(_read_rows(part.value, sent_P, reader), sent_P)


def _read_positions(number, entries, reader):
    if not _as_indices(number, entries):
        sent_P = reader.bits(entries)
        if sent_P.sum() != number:
            raise WireError(f"the bitmap has {sent_P.sum()} entries, not {number}.")
        return sent_P
    width = wire.index_bytes(entries)
    byte = np.zeros((number, 8), np.uint8)
    byte[:, :width] = reader.array((number, width), np.uint8)
    index = byte.view("<u8").ravel().astype(np.int64)
    if (index >= entries).any() or (np.diff(index) <= 0).any():
        raise WireError(f"indices must ascend and stay below {entries}.")
    sent_P = np.zeros(entries, bool)
    sent_P[index] = True
    return sent_P

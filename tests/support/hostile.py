"""Replies of a client that lies, each with the words of its refusal.

A lie is a function of an honest reply. It knows the checksum, so it can seal any
payload. The mod of a deployment imports this module, which imports no JAX.
"""

import math
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Said(NamedTuple):
    """An honest reply to a message of round `r`, from 0."""

    fields: dict
    schemas: Path  # folder of what the checksum knows of the fields of a stage
    stage: str
    r: int
    i: int

    @property
    def payload(self):
        return self.fields["up"][12:]

    def up(self, data):
        return self.fields | {"up": data}

    def forged(self, payload):
        """Another payload, with the checksum of this round and client."""
        start = struct.pack("<2sBBI", b"JP", 1, 0, len(payload))
        about = zlib.crc32(struct.pack("<2q", self.r, self.i))
        schema = (self.schemas / f"{self.stage}.schema").read_bytes()
        crc = zlib.crc32(payload, zlib.crc32(start, zlib.crc32(schema, about)))
        return self.up(start + struct.pack("<I", crc) + payload)


def field(name, value):
    return lambda said: said.fields | {name: value}


def without(name):
    return lambda said: {k: v for k, v in said.fields.items() if k != name}


def up(edit):
    return lambda said: said.up(edit(said.fields["up"]))


def payload(edit):
    return lambda said: said.forged(edit(said.payload))


def number(value, at=0, form="<f"):
    """A payload with another number at a place; negative places are from the end."""
    put = struct.pack(form, value)

    def edit(p):
        begin = at % len(p)
        return p[:begin] + put + p[begin + len(put) :]

    return payload(edit)


def own_counts(value):
    def rows(p, at):
        return int.from_bytes(p[at : at + 2], "little").bit_count()

    def edit(p):
        at = 2 + 4 * 32 * rows(p, 0)  # after the prototypes of public classes
        counts = struct.pack("<i", value) * rows(p, at)
        return p[: at + 2] + counts + p[at + 2 + len(counts) :]

    return payload(edit)


ANY = [  # of every stage
    (field("up", 5), "malformed: TypeError"),
    (field("up", "text"), "4 bytes are less than the header's 12"),
    (field("up", "of more letters"), "malformed: TypeError"),
    (without("up"), "malformed: KeyError('up')"),
    (lambda said: {}, "malformed: KeyError"),
    (up(lambda b: b[:3]), "3 bytes are less than the header's 12"),
    (up(lambda b: b[:-1]), "the payload should be"),
    (up(lambda b: b + b"x"), "the payload should be"),
    (up(lambda b: b"XX" + b[2:]), "the message begins with"),
    (up(lambda b: b[:-1] + bytes([b[-1] ^ 1])), "the checksum is wrong"),
    (lambda said: said._replace(i=said.i - 1).forged(said.payload), "round or sender"),
    (lambda said: said._replace(r=said.r - 1).forged(said.payload), "round or sender"),
    (payload(lambda p: p[:-4]), "too early"),
    (payload(lambda p: p + bytes(4)), "after its last field"),
]
TRAIN = [
    *ANY,
    (field("loss", "low"), "loss is 'low', not float"),
    (field("loss", b"\x1b"), "loss is b'\\x1b', not float"),
    (field("loss", math.nan), "loss is nan"),
    (field("loss", 1e30), "loss is 1e+30"),
    (without("loss"), "KeyError('loss')"),
    (field("steps", 2**40), "steps is 1099511627776"),
    (field("steps", 1.5), "steps is 1.5, not int"),
    (field("steps", -1), "steps is -1"),
    (field("finite", False), "its training diverged"),
    (field("finite", "yes"), "its training diverged"),
    (field("refused", "\x1b[2J\n" * 999), "\\x1b[2J\\n\\x1b"),
]
UPLOADS = {  # by method
    "fedavg": [
        (number(math.nan), "has values from nan"),
        (number(-math.inf), "has values from -inf"),
        (number(1e30), "to 1e+30; accepted are -1e+06 to 1e+06"),
        (number(-5, -4, "<i"), "the upload.size has values from -5"),
        (
            payload(lambda p: bytes(len(p) - 4) + struct.pack("<i", 2**31 - 1)),
            "the upload.size has values from 2.14748e+09",
        ),
    ],
    "fedproto": [
        (number(math.nan, 2), "the upload has values from nan"),
        (number(1e30, 2), "to 1e+30; accepted are -1e+06 to 1e+06"),
        (
            payload(lambda p: b"\xff\x03" + np.full(80, 1e3, "<f4").tobytes()),
            "the upload has a prototype of class",
        ),
    ],
    "refprotofl": [],
}
FIRST = [
    *ANY,
    (own_counts(2**31 - 1), "the upload.own has a prototype of class"),
    (own_counts(-1), "a class that is there has a count below 1"),
]
EVALUATE = [
    *ANY,
    (payload(lambda p: np.full(len(p) // 4, 1e9, "<f4").tobytes()), "1e+09; accepted"),
    (payload(lambda p: np.full(len(p) // 4, -1, "<f4").tobytes()), "from -1 to -1;"),
    (number(math.nan), "has values from nan"),
    (number(1e4), "has values from 10000 to 10000; accepted are 0 to"),
]


def planned(method, liars):
    """Returns {(stage, round, client): lie, words of its refusal}, rounds from 1."""
    stages = {"train": TRAIN + UPLOADS[method], "evaluate": EVALUATE}
    stages |= {"first": FIRST} if method == "refprotofl" else {}
    most = max(map(len, stages.values())) // len(liars)
    return {
        (stage, r, i): lies[(r * len(liars) + k) % len(lies)]
        for stage, lies in stages.items()
        for r in range(1, most + 1)
        for k, i in enumerate(liars)
    }


def lied(plan, schemas, stage, r, i, fields):
    lie, _ = plan.get((stage, r, i), (None, ""))
    return lie(Said(fields, Path(schemas), stage, r, i)) if lie else fields

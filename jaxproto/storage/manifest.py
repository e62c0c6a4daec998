"""What a checkpoint says of itself, and whether its files are still those.

`manifest.json` has the round, the settings of the run, path, shape and dtype of every
leaf, and the CRC-32 of every file and of the manifest. So a damaged checkpoint, one
under the name of another round and one of another run are known before it is read.
Manifests of older versions have neither round nor settings: these are not compared.
"""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from jaxproto.io import atomic

NAME = "manifest.json"
_CHUNK = 1 << 24  # bytes of a file in memory at a time


class Manifest(NamedTuple):
    """The contents."""

    round: int
    run: Mapping | None  # settings: field -> value; None is not compared
    leaves: list[dict]


class Unusable(Exception):
    """A checkpoint is not read; the message goes on from "the checkpoint"."""


class Damaged(Unusable):
    """What is on disk is not what was written."""

    def __init__(self, why: str):
        """Of the reason."""
        super().__init__(f"is damaged ({why})")
        self.why = why


def write(folder: Path, about: Manifest, before: Path | None = None):
    """Writes the manifest of the files in a folder, which are complete.

    Args:
      before: an older checkpoint, some of whose files are linked into this one: their
        checksums are known.
    """
    known = {}
    if before is not None:
        known = {
            n: c for n, c in _body(before)["files"].items() if _same(n, before, folder)
        }
    run = None if about.run is None else dict(about.run)
    body = {"round": about.round, "run": run, "leaves": about.leaves}
    body["files"] = _checksums(folder, known)
    body["crc32"] = zlib.crc32(_canonical(body))
    atomic.write(folder / NAME, json.dumps(body, indent=1).encode())


def read(folder: Path, run: Mapping | None) -> list[dict]:
    """The leaves of a checkpoint, after a look at every byte of it.

    Args:
      folder: of the checkpoint, named by its round.
      run: settings of the run that wants it.

    Raises:
      Unusable: it is damaged, of another round or of another run.
    """
    try:
        body = _body(folder)
        found = _checksums(folder)
    except OSError as e:
        raise Damaged(f"{e.filename}: {e.strerror}") from e
    for name, want in body["files"].items():
        if name not in found:
            raise Damaged(f"{name} is missing")
        if found[name] != want:
            raise Damaged(f"the checksum of {name} differs")
    if body.get("round", int(folder.name)) != int(folder.name):
        raise Unusable(f"is that of round {body['round']} under another name")
    if other := _differences(body.get("run"), run):
        raise Unusable(f"is of another run ({other})")
    return body["leaves"]


def read_leaves(folder: Path) -> list[dict]:
    """The leaves by the manifest alone; nothing is said of the other files.

    Raises:
      Unusable: the manifest is damaged.
    """
    return _body(folder)["leaves"]


def _body(folder):
    try:
        body = json.loads((folder / NAME).read_bytes())
        crc = body.pop("crc32")
    except FileNotFoundError as e:
        raise Damaged(f"{NAME} is missing") from e
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as e:
        raise Damaged(f"{NAME} cannot be read") from e
    if zlib.crc32(_canonical(body)) != crc:
        raise Damaged(f"the checksum of {NAME} differs")
    return body


def _differences(there, here):
    """Fields that both know and that differ, with both values."""
    if there is None or here is None:
        return ""
    both = [k for k in sorted(there) if k in here and there[k] != here[k]]
    return ", ".join(f"{k}: {there[k]!r} there, {here[k]!r} here" for k in both)


def _canonical(body):
    return json.dumps(body, sort_keys=True).encode()


def _same(name, before, folder):
    """Whether a file has one content in two folders, and two names."""
    there = folder / name
    return there.exists() and there.samefile(before / name)


def _checksums(folder, known=()):
    """CRC-32 by file name, of everything below `folder` but the manifest."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    names = [p.relative_to(folder).as_posix() for p in paths]
    known = dict(known)
    rows = zip(names, paths, strict=True)
    sums = {n: known[n] if n in known else _crc(p) for n, p in rows}
    sums.pop(NAME, None)
    return sums


def _crc(path):
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc

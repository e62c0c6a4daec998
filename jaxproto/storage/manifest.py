"""Manifest of a checkpoint: its contents and checksums.

`manifest.json` has the round, the settings of the run, path, shape and dtype of every
leaf, and the CRC-32 of every file and of the manifest. So a checkpoint that is damaged,
under the name of another round or of another run is found before it is read. Manifests
of older versions have neither round nor settings: these are not compared.
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
    """Contents of a manifest."""

    round: int
    run: Mapping | None  # settings: field -> value; None is not compared
    leaves: list[dict]


class Unusable(Exception):
    """Error of a checkpoint that is not read; continues "the checkpoint ..."."""


class Damaged(Unusable):
    """Error of files that are not as they were written."""

    def __init__(self, why: str):
        """Makes the error for a reason, such as "x is missing"."""
        super().__init__(f"is damaged ({why})")
        self.why = why


def write(folder: Path, about: Manifest, before: Path | None = None):
    """Writes the manifest of the complete files in a folder.

    Args:
      folder: of the checkpoint.
      about: its contents.
      before: an older checkpoint; checksums of files linked from it are known.
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
    """Returns the leaves of a checkpoint after checking all its checksums.

    Args:
      folder: of the checkpoint, named by its round.
      run: settings of the run that reads it.

    Raises:
      Unusable: the checkpoint is damaged, of another round or of another run.
    """
    try:
        body = _body(folder)
        sums = _checksums(folder)
    except OSError as e:
        raise Damaged(f"{e.filename}: {e.strerror}") from e
    for name, want in body["files"].items():
        if name not in sums:
            raise Damaged(f"{name} is missing")
        if sums[name] != want:
            raise Damaged(f"the checksum of {name} differs")
    if body.get("round", int(folder.name)) != int(folder.name):
        raise Unusable(f"is that of round {body['round']} under another name")
    if other := _differences(body.get("run"), run):
        raise Unusable(f"is of another run ({other})")
    return body["leaves"]


def read_leaves(folder: Path) -> list[dict]:
    """Returns the leaves from the manifest, without checking the other files.

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


def _differences(saved, now):
    """Describes the common fields of two settings that differ."""
    if saved is None or now is None:
        return ""
    differing = [k for k in sorted(saved) if k in now and saved[k] != now[k]]
    return ", ".join(f"{k}: {saved[k]!r} there, {now[k]!r} here" for k in differing)


def _canonical(body):
    return json.dumps(body, sort_keys=True).encode()


def _same(name, before, folder):
    """Returns whether a file is linked into two folders."""
    file = folder / name
    return file.exists() and file.samefile(before / name)


def _checksums(folder, known=()):
    """Computes the CRC-32 of every file below a folder but the manifest, by name."""
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

"""Manifest of a checkpoint: its round, settings, leaves and checksums.

`manifest.json` has the round, the settings of the run, path, shape and dtype of every
leaf, and the CRC-32 of every file and of the manifest. They show that a checkpoint is
damaged, renamed or of another run before its arrays are read. Manifests of older
versions lack round and settings, which then are not compared.
"""

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jaxproto.io import atomic

NAME = "manifest.json"
_CHUNK = 1 << 24  # bytes of a file in memory at a time


class Unusable(Exception):
    """An unusable checkpoint; the message continues "the checkpoint"."""


class Damaged(Unusable):
    """A checkpoint whose files differ from those that were written."""

    def __init__(self, reason: str):
        super().__init__(f"is damaged ({reason})")


def write(
    folder: Path, round: int, run: Mapping, leaves: list[dict], known: Mapping[str, int]
):
    """Writes the manifest of a folder whose other files are complete.

    Args:
      run: settings: field -> value.
      known: checksums by file, which are not computed again.
    """
    body = {"round": round, "run": dict(run), "leaves": leaves}
    body["files"] = _checksums(folder, known)
    body["crc32"] = zlib.crc32(_canonical(body))
    atomic.write(folder / NAME, json.dumps(body, indent=1).encode())


def read(folder: Path, run: Mapping) -> list[dict]:
    """Returns the leaves of a checkpoint after checking all of its files.

    Args:
      folder: folder of the checkpoint, named by its round.
      run: settings of the run that resumes.

    Raises:
      Unusable: it is damaged, of another round or of another run.
    """
    body = contents(folder)
    try:
        checksums = _checksums(folder)
    except OSError as e:
        raise Damaged(f"{e.filename}: {e.strerror}") from e
    for name, crc in body["files"].items():
        if name not in checksums:
            raise Damaged(f"{name} is missing")
        if checksums[name] != crc:
            raise Damaged(f"the checksum of {name} differs")
    if body.get("round", int(folder.name)) != int(folder.name):
        raise Unusable(f"is that of round {body['round']} under another name")
    if differences := _differences(body.get("run") or {}, run):
        raise Unusable(f"is of another run ({differences})")
    return body["leaves"]


def linked_checksums(folder: Path, previous: Path) -> dict[str, int]:
    """Returns the checksums of files that are hard links to those of a checkpoint."""

    def is_linked(name):
        file = folder / name
        return file.exists() and file.samefile(previous / name)

    files = contents(previous)["files"].items()
    return {name: crc for name, crc in files if is_linked(name)}


def is_complete(folder: Path) -> bool:
    """Returns whether a checkpoint has its manifest and all files that it lists."""
    try:
        return all((folder / name).is_file() for name in contents(folder)["files"])
    except Unusable:
        return False


def contents(folder: Path) -> dict[str, Any]:
    """Returns the manifest after checking its own checksum, not those of other files.

    "leaves" lists path, shape and dtype of every leaf, and "files" has the CRC-32 of
    every file by its path relative to the folder.

    Raises:
      Unusable: the manifest is damaged.
    """
    try:
        body = json.loads(atomic.read(folder / NAME))
        crc = body.pop("crc32")
    except FileNotFoundError as e:
        raise Damaged(f"{NAME} is missing") from e
    except OSError as e:
        raise Damaged(f"{e.filename}: {e.strerror}") from e
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as e:
        raise Damaged(f"{NAME} cannot be read") from e
    if zlib.crc32(_canonical(body)) != crc:
        raise Damaged(f"the checksum of {NAME} differs")
    return body


def _differences(saved, run):
    """Returns the fields in both settings whose values differ, with both values."""
    keys = [k for k in sorted(saved) if k in run and saved[k] != run[k]]
    return ", ".join(f"{k}: {saved[k]!r} there, {run[k]!r} here" for k in keys)


def _canonical(body):
    return json.dumps(body, sort_keys=True).encode()


def _checksums(folder, known=MappingProxyType({})):
    """Returns the CRC-32 of every file below `folder` but the manifest."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    names = [p.relative_to(folder).as_posix() for p in paths]
    files = zip(names, paths, strict=True)
    return {n: known[n] if n in known else _crc(p) for n, p in files if n != NAME}


def _crc(path):
    crc = 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            crc = zlib.crc32(chunk, crc)
    return crc

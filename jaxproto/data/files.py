"""The one way in which files are written: whole, or not at all."""

import os
from pathlib import Path


def write(path: str | os.PathLike, content: bytes):
    """Puts `content` in the place of a file; a kill leaves the old one or the new one.

    A file that has this content already is left alone. The bytes are on disk before the
    name is, and the name is on disk when this returns.
    """
    path = Path(path)
    if path.exists() and path.read_bytes() == content:
        return
    new = path.with_name(path.name + ".new")
    with new.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
    _sync(path.parent)


def _sync(folder: Path):
    """Waits until the names in a folder are on disk, where a system can be asked to."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

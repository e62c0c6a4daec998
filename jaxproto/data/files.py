"""The one way in which files are written: whole, or not at all."""

import os
import tempfile
from pathlib import Path


def write(path: str | os.PathLike, content: bytes, *, private: bool = False):
    """Puts `content` in the place of a file; a kill leaves the old one or the new one.

    A file that has this content already is left alone. The bytes are on disk before the
    name is, and the name is on disk when this returns.

    Args:
      private: mode 0600 whatever the umask is, and under a name of its own until it is
        whole: other processes may write the same file at the same time.
    """
    path = Path(path)
    if path.exists() and path.read_bytes() == content:
        return
    new = path.with_name(path.name + ".new")
    if private:
        new = _own_name(path)
    try:
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        if private:  # nothing would ever write over it
            new.unlink(missing_ok=True)
        raise
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


def _own_name(path: Path) -> Path:
    """An empty file beside `path` that only this process and user can write."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    os.close(handle)
    os.chmod(name, 0o600)  # whatever the umask took away
    return Path(name)

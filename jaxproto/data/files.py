"""The one way in which files are written, and which files are read: regular ones."""

import os
import stat
import tempfile
from pathlib import Path

from jaxproto.errors import UserError

KINDS = {  # of what is no regular file; reading some of them never ends
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def kind(path: str | os.PathLike) -> str:
    """What a path is if it is no regular file, such as "a pipe"; "" for a file.

    Raises:
      FileNotFoundError: there is nothing, or a link to nothing.
      OSError: as `os.stat`.
    """
    return KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "")


def check_regular(name: str, path: str | os.PathLike):
    """Raises UserError unless a path is that of a regular file, or of a link to one.

    Args:
      name: of what is read, with which the message begins.
    """
    try:
        found = kind(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{name}: no such file. Looked for {os.path.abspath(path)}."
        ) from error
    if found:
        raise UserError(f"{name}: {path} is {found}. Give a regular file.")


def read(path: str | os.PathLike) -> bytes:
    """The content of a regular file.

    Raises:
      OSError: it is none, or cannot be read.
    """
    if found := kind(path):
        raise OSError(f"it is {found}, no regular file")
    return Path(path).read_bytes()


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


def _own_name(path: Path) -> Path:
    """An empty file beside `path` that only this process and user can write."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    os.close(handle)
    os.chmod(name, 0o600)  # whatever the umask took away
    return Path(name)

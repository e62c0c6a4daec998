"""The one way in which files are written, and which files are read: regular ones.

A file is written whole, or not at all.

What is being made has a name of its own until it is complete. Those names are known
here, so that a process that ends in the middle can take them away
(`remove_in_progress`); one that is killed leaves them to the next start
(`remove_leftovers`).
"""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from jaxproto.errors import UserError

NEW = ".new"  # ending of a file that is being written
_unfinished: set[Path] = set()


class Unwritable(UserError):
    """A file or folder cannot be written, such as on a full disk."""

    def __init__(self, path: str | os.PathLike, size: int, reason: str):
        """Of `size` bytes, for a reason in the system's words."""
        self.reason = reason
        try:
            free = f", {format_bytes(shutil.disk_usage(Path(path).parent).free)} free"
        except OSError:
            free = ""
        super().__init__(
            f"cannot write {path}: {reason} ({format_bytes(size)} "
            f"needed{free}). Make room "
            "there or choose another place; the same command then goes on."
        )


KINDS = {  # of what is no regular file; reading some of them never ends
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def file_type(path: str | os.PathLike) -> str:
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
        found = file_type(path)
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
    if found := file_type(path):
        raise OSError(f"it is {found}, no regular file")
    return Path(path).read_bytes()


def write(path: str | os.PathLike, content: bytes, *, private: bool = False):
    """Puts `content` in the place of a file; a kill leaves the old one or the new one.

    A file that has this content already is left alone. The bytes are on disk before the
    name is, and the name is on disk when this returns.

    Args:
      private: mode 0600 whatever the umask is, and under a name of its own until it is
        whole: other processes may write the same file at the same time.

    Raises:
      Unwritable: the system refuses; the old file stays.
    """
    path = Path(path)
    with write_errors(path, len(content)):
        if path.exists() and path.read_bytes() == content:
            return
        new = _own_name(path) if private else path.with_name(path.name + NEW)
        with in_progress(new):
            with new.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        fsync_dir(path.parent)


@contextlib.contextmanager
def write_errors(path: str | os.PathLike, size: int) -> Iterator[None]:
    """Says in one line that the system refuses to write there.

    Args:
      path: the file or folder that is written.
      size: its bytes.

    Raises:
      Unwritable: in place of an OSError.
    """
    try:
        yield
    except OSError as e:
        raise Unwritable(path, size, e.strerror or str(e)) from e


def format_bytes(size: int) -> str:
    """Bytes, in words."""
    return f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size:,} bytes"


@contextlib.contextmanager
def in_progress(path: Path) -> Iterator[None]:
    """Knows a file or folder as being made; takes it away if the block fails."""
    _unfinished.add(path)
    try:
        yield
    except Exception:
        remove(path)
        raise
    finally:
        _unfinished.discard(path)


def remove_in_progress():
    """Takes away what is being made: the process ends."""
    for path in list(_unfinished):
        remove(path)


def remove_leftovers(folder: Path, patterns: tuple[str, ...]):
    """Takes away what a killed process was writing to files of these names."""
    for pattern in patterns:
        for left in folder.glob(pattern + NEW):
            remove(left)


def remove(path: Path):
    """Removes a file or a whole folder, as far as that can be done."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def reserve(path: Path, size: int):
    """Makes a file of so many bytes, all of which the disk has room for.

    Raises:
      Unwritable: it has not, or it cannot be made.
    """
    with write_errors(path, size), path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:  # macOS, Windows: nothing can be promised
            file.truncate(size)


def fsync_dir(folder: Path):
    """Waits until the names in a folder are on disk, where a system can be asked to."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_tree(folder: Path):
    """Waits until all files below a folder are on disk, and their names."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            fsync_dir(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    fsync_dir(folder)


def _own_name(path: Path) -> Path:
    """An empty file beside `path` that only this process and user can write."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    os.close(handle)
    os.chmod(name, 0o600)  # whatever the umask took away
    return Path(name)

"""Atomic writes, and bounded reads of files that others may have written.

`read` takes regular files up to a size: reading a pipe, a device or a sparse file may
never end.

A file is written under a temporary name and renamed when complete. A process that ends
early removes its temporary files (`remove_in_progress`); the next start removes those
of a killed process (`remove_leftovers`).
"""

import contextlib
import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np

from jaxproto.errors import UserError

LARGEST = 2**32  # bytes of a file that is read whole
NEW = ".new"  # suffix of a file that is being written
_unfinished: set[Path] = set()


class Unwritable(UserError):
    """Error of a file or folder that cannot be written, such as on a full disk."""

    def __init__(self, path: str | os.PathLike, size: int, reason: str):
        """Makes the error for `size` bytes and the system's reason."""
        self.reason = reason
        try:
            free = f", {format_bytes(shutil.disk_usage(Path(path).parent).free)} free"
        except OSError:
            free = ""
        super().__init__(
            f"cannot write {path}: {reason} ({format_bytes(size)} needed{free}). Make "
            "room there or choose another place; the same command then goes on."
        )


KINDS = {  # of irregular files; reading some of them never ends
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def file_type(path: str | os.PathLike) -> str:
    """Returns the kind of an irregular file, such as "a pipe"; "" for a regular file.

    Raises:
      FileNotFoundError: there is no file, or a dangling link.
      OSError: from `os.stat`.
    """
    return KINDS.get(stat.S_IFMT(os.stat(path).st_mode), "")


def check_regular(name: str, path: str | os.PathLike):
    """Raises UserError about `name` unless the path leads to a regular file."""
    try:
        irregular = file_type(path)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{name}: no such file. Looked for {os.path.abspath(path)}."
        ) from error
    if irregular:
        raise UserError(f"{name}: {path} is {irregular}. Give a regular file.")


def open_regular(path: str | os.PathLike) -> BinaryIO:
    """Opens a regular file for reading; never waits for the writer of a pipe.

    Raises:
      OSError: the file is irregular, or cannot be opened.
    """
    kind = file_type(path)
    if not kind:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        if not (kind := KINDS.get(stat.S_IFMT(os.fstat(handle).st_mode), "")):
            return open(handle, "rb")
        os.close(handle)
    raise _unusable(path, f"it is {kind}, no regular file")


def _unusable(path, why: str) -> OSError:
    return OSError(errno.EINVAL, why, os.fspath(path))


def read(path: str | os.PathLike, limit: int = LARGEST) -> bytes:
    """Reads a regular file of at most `limit` bytes.

    Raises:
      OSError: the file is irregular or larger, or cannot be read.
    """
    with open_regular(path) as file:
        return read_open(file, path, limit)


def read_open(file: BinaryIO, path: str | os.PathLike, limit: int = LARGEST) -> bytes:
    """Reads an open regular file of at most `limit` bytes; `path` is for errors.

    Raises:
      OSError: the file is larger, or cannot be read.
    """
    if (size := os.fstat(file.fileno()).st_size) > limit:
        why = f"it has {format_bytes(size)}, over {format_bytes(limit)}"
        raise _unusable(path, why)
    try:
        return file.read(size)
    except MemoryError as e:
        why = f"its {format_bytes(size)} do not fit into memory"
        raise _unusable(path, why) from e


def has_content(path: str | os.PathLike, content: bytes) -> bool:
    """Returns whether there is a regular file of this content.

    Raises:
      OSError: the file is irregular, or cannot be read.
    """
    try:
        with open_regular(path) as file:
            same_size = os.fstat(file.fileno()).st_size == len(content)
            return same_size and file.read(len(content) + 1) == content
    except FileNotFoundError:
        return False


def write(path: str | os.PathLike, content: bytes, *, private: bool = False):
    """Writes a file atomically, unless it has this content already.

    The content is on disk before the rename, and the new name before the return.

    Args:
      private: gives the file mode 0600 whatever the umask, and the temporary file a
        unique name, so that several processes may write the same file.

    Raises:
      Unwritable: the file cannot be written; the old file stays.
    """
    path = Path(path)
    with write_errors(path, len(content)):
        if has_content(path, content):
            return
        new = _make_unique(path) if private else path.with_name(path.name + NEW)
        with in_progress(new):
            with new.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        fsync_dir(path.parent)


def write_array(path: Path, array: np.ndarray):
    """Writes an npy file atomically, without a copy of the array in memory.

    Raises:
      Unwritable: the file cannot be written.
    """
    new = path.with_name(path.name + NEW)
    with write_errors(path, array.nbytes), in_progress(new):
        with new.open("wb") as file:
            np.save(file, array)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        fsync_dir(path.parent)


@contextlib.contextmanager
def write_errors(path: str | os.PathLike, size: int) -> Iterator[None]:
    """Turns an OSError of a block that writes `size` bytes into `Unwritable`."""
    try:
        yield
    except OSError as e:
        raise Unwritable(path, size, e.strerror or str(e)) from e


def format_bytes(size: int) -> str:
    """Formats a number of bytes."""
    return f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size:,} bytes"


@contextlib.contextmanager
def in_progress(path: Path) -> Iterator[None]:
    """Registers a temporary file or folder; removes it if the block fails."""
    _unfinished.add(path)
    try:
        yield
    except Exception:
        remove(path)
        raise
    finally:
        _unfinished.discard(path)


def remove_in_progress():
    """Removes all registered temporary files, before the process ends."""
    for path in list(_unfinished):
        remove(path)


def remove_leftovers(folder: Path, patterns: tuple[str, ...]):
    """Removes temporary files that a killed process left for files of these names."""
    for pattern in patterns:
        for path in folder.glob(pattern + NEW):
            remove(path)


def remove(path: Path):
    """Removes a file or folder; ignores errors."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def check_free(path: Path, size: int):
    """Raises Unwritable if the disk has no room for `size` bytes at `path`."""
    if shutil.disk_usage(path.parent).free < size:
        raise Unwritable(path, size, os.strerror(errno.ENOSPC))


def reserve(path: Path, size: int):
    """Allocates a file of `size` bytes on disk.

    Raises:
      Unwritable: the disk has no room, or the file cannot be made.
    """
    with write_errors(path, size), path.open("wb") as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)
        else:  # macOS, Windows: no reservation
            file.truncate(size)


def fsync_dir(folder: Path):
    """Syncs the names in a folder to disk, where the system can."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def fsync_tree(folder: Path):
    """Syncs all files below a folder, and their names, to disk."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            fsync_dir(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    fsync_dir(folder)


def _make_unique(path: Path) -> Path:
    """Makes an empty file beside `path` with a unique name and mode 0600."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name}.")
    os.close(handle)
    os.chmod(name, 0o600)  # whatever the umask
    return Path(name)

"""The one way in which files are written: whole, or not at all.

What is being made has a name of its own until it is complete. Those names are known
here, so that a process that ends in the middle can take them away (`drop_unfinished`);
one that is killed leaves them to the next start (`sweep`).
"""

import contextlib
import os
import shutil
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
            free = f", {amount(shutil.disk_usage(Path(path).parent).free)} free"
        except OSError:
            free = ""
        super().__init__(
            f"cannot write {path}: {reason} ({amount(size)} needed{free}). Make room "
            "there or choose another place; the same command then goes on."
        )


def write(path: str | os.PathLike, content: bytes):
    """Puts `content` in the place of a file; a kill leaves the old one or the new one.

    A file that has this content already is left alone. The bytes are on disk before the
    name is, and the name is on disk when this returns.

    Raises:
      Unwritable: the system refuses; the old file stays.
    """
    path = Path(path)
    new = path.with_name(path.name + NEW)
    with writing(path, len(content)), unfinished(new):
        if path.exists() and path.read_bytes() == content:
            return
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        sync(path.parent)


@contextlib.contextmanager
def writing(path: str | os.PathLike, size: int) -> Iterator[None]:
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


def amount(size: int) -> str:
    """Bytes, in words."""
    return f"{size / 2**20:,.1f} MiB" if size >= 2**20 else f"{size:,} bytes"


@contextlib.contextmanager
def unfinished(path: Path) -> Iterator[None]:
    """Knows a file or folder as being made; takes it away if the block fails."""
    _unfinished.add(path)
    try:
        yield
    except Exception:
        remove(path)
        raise
    finally:
        _unfinished.discard(path)


def drop_unfinished():
    """Takes away what is being made: the process ends."""
    for path in list(_unfinished):
        remove(path)


def sweep(folder: Path, patterns: tuple[str, ...]):
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


def sync(folder: Path):
    """Waits until the names in a folder are on disk, where a system can be asked to."""
    if not hasattr(os, "O_DIRECTORY"):  # Windows
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(folder: Path):
    """Waits until all files below a folder are on disk, and their names."""
    for path in sorted(folder.rglob("*")):
        if path.is_dir():
            sync(path)
        else:
            with path.open("rb") as file:
                os.fsync(file.fileno())
    sync(folder)

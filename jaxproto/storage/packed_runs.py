"""Runs in an archive: FOLDER.tar.xz is read where there is no folder FOLDER.

The archive has FOLDER with a folder for each run, as `tar cJf FOLDER.tar.xz FOLDER`
packs them. `RunFolder` and `run_folders` then read FOLDER and FOLDER/NAME.
"""

import atexit
import functools
import lzma
import shutil
import tarfile
import tempfile
from pathlib import Path

from jaxproto.errors import UserError
from jaxproto.storage import run_folder

SUFFIX = ".tar.xz"


def archive_of(folder: Path) -> Path:
    """Returns the path of the archive of a folder."""
    return Path(f"{folder}{SUFFIX}")


def unpacked(path: Path) -> Path | None:
    """Returns where the files of a packed folder or run are; None if it is not packed.

    Raises:
      UserError: the archive is damaged.
    """
    for folder in (path, path.parent):
        if (archive := archive_of(folder)).is_file():
            stat = archive.stat()
            here = _unpack(archive.resolve(), stat.st_mtime_ns, stat.st_size)
            return here / folder.name / path.relative_to(folder)
    return None


@functools.cache
def _unpack(archive: Path, *_stamp: int) -> Path:
    """Unpacks an archive, as it is now, into a folder that the process removes."""
    folder = Path(tempfile.mkdtemp(prefix="jaxproto-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    try:
        with tarfile.open(archive, "r:xz") as tar:
            tar.extractall(folder, filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError, OSError) as e:
        raise UserError(
            f"{archive} cannot be unpacked ({e}): leave it out, or pack its folder "
            f"again with tar cJf {archive.name} FOLDER."
        ) from e
    return folder


run_folder.FINDERS.append(unpacked)

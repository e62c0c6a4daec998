"""Published archives: download, and reading without unpacking.

An `ArchiveFiles` is a zip archive or the folder that it was unpacked to. Images decode
to RGB: RGB images in JPEG or PNG keep their bytes, others become PNG with the same
pixels.
"""

import contextlib
import hashlib
import io
import pathlib
import re
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from PIL import Image

from jaxproto.errors import UserError, reason_of
from jaxproto.lab.data import image_files

Examples = Iterator[tuple[str, dict[str, Any]]]  # key, {"image": bytes, "label": int}


class Archive(NamedTuple):
    """File to download, or to find in --manual_dir."""

    name: str
    url: str
    md5: str
    inside: str  # folder or file in the archive that is read


class ArchiveFiles(NamedTuple):
    """Files of an archive, or of the folder that it was unpacked to."""

    where: str  # path of the archive or folder
    names: list[str]  # paths of the files in it, sorted, parts joined by /
    read: Callable[[str], bytes]  # path in it -> content

    def matching(self, pattern: str) -> list[re.Match[str]]:
        """Returns the matches of a pattern with whole paths, in their order."""
        return [m for m in map(re.compile(pattern).fullmatch, self.names) if m]


def fetch(archives: Sequence[Archive], downloads) -> list[pathlib.Path]:
    """Returns the path of each archive, a zip file or an unpacked folder.

    An archive in `manual_dir` of TFDS's download manager is read as it is (zip files
    have checksums of their own); the others are downloaded and must have the known md5,
    otherwise they are deleted.
    """
    paths = {a.name: _find_manually(a, downloads) for a in archives}
    missing = [a for a in archives if paths[a.name] is None]
    loaded = downloads.download({a.name: a.url for a in missing}) if missing else {}
    for archive in missing:
        paths[archive.name] = pathlib.Path(loaded[archive.name])
        _check_md5(archive, paths[archive.name])
    return [paths[a.name] for a in archives]


def _find_manually(archive, downloads):
    """Returns the path of an archive in `manual_dir`; None if it is not there."""
    try:
        folder = pathlib.Path(downloads.manual_dir)
    except AssertionError:  # it is not there, or empty
        return None
    if (folder / archive.name).is_file():
        return folder / archive.name
    return folder if (folder / archive.inside).exists() else None


def _check_md5(archive, path):
    with open(path, "rb") as file:
        md5 = hashlib.file_digest(file, "md5").hexdigest()
    if md5 != archive.md5:
        path.unlink()
        raise UserError(
            f"{archive.name}: the download from {archive.url} has md5 {md5} instead of "
            f"{archive.md5}: it is damaged, or another file is there now. It has been "
            "deleted; run the same command again to download it again."
        )


@contextlib.contextmanager
def open_archive(path: pathlib.Path, inside: str) -> Iterator[ArchiveFiles]:
    """Opens a zip file, or the folder that it was unpacked to, and closes it.

    Raises:
      UserError: not a whole zip file, or nothing named `inside` in it; later, from
        `read`, a damaged member.
    """
    with contextlib.ExitStack() as stack:
        if path.is_dir():
            names, read = _names(path, inside), lambda name: (path / name).read_bytes()
        else:
            with _user_errors(path):
                archive = stack.enter_context(zipfile.ZipFile(path))
            files = (n for n in archive.namelist() if not n.endswith("/"))
            names = [n for n in files if n == inside or n.startswith(f"{inside}/")]
            read = archive.read
        if not names:
            raise UserError(
                f"{path}: there is no {inside} in it. It is another archive."
            )

        def read_member(name):
            with _user_errors(path, f", file {name},"):
                return read(name)

        yield ArchiveFiles(str(path), sorted(names), read_member)


def _names(folder, inside):
    """Returns the paths of the files in a folder that are `inside` or below it."""
    paths = [folder / inside, *(folder / inside).rglob("*")]
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]


@contextlib.contextmanager
def _user_errors(path, member=""):
    """Turns any error of a block into UserError."""
    try:
        yield
    except Exception as error:  # zip, zlib and the disk raise half a dozen kinds
        raise UserError(
            f"{path}{member} cannot be read ({reason_of(error)}). It is "
            "truncated or damaged: download it again."
        ) from error


def check_rgb(
    files: ArchiveFiles, name: str, size: tuple[int, int] | None = None
) -> bytes:
    """Reads an image as JPEG or PNG that decodes to RGB.

    `size` is the width and height that it must have; None allows any.
    """
    content = files.read(name)
    with _user_errors(files.where, f", image {name},"):
        image = Image.open(io.BytesIO(content), formats=image_files.FORMATS)
        image.load()
    if size not in (None, image.size):
        raise UserError(
            f"{files.where}, image {name}, has size {image.size}, but all images of "
            f"this set have size {size}. It is damaged: download the archive again."
        )
    if image.mode == "RGB" and image.format in ("JPEG", "PNG"):
        return content
    png = io.BytesIO()
    image.convert("RGB").save(png, "PNG")
    return png.getvalue()

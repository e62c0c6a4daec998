"""Image files: their headers, and decoding in threads.

Pillow works outside the interpreter's lock while it decodes and resizes, so threads
help with photographs (little with 32 x 32 pixels).
"""

import contextlib
import hashlib
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from jaxproto import errors
from jaxproto.data import resize
from jaxproto.io import atomic

ENDINGS = (  # those of torchvision's ImageFolder, and gif and jfif
    *(".bmp", ".gif", ".jfif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm"),
    *(".tif", ".tiff", ".webp"),
)
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM")  # EPS starts a program
GREY_MODES = ("1", "L", "LA", "La")  # modes of Pillow
COLOUR_MODES = ("P", "PA", "RGB", "RGBA", "RGBX", "RGBa", "CMYK", "YCbCr", "LAB", "HSV")
ORIENTATION = 0x0112  # tag of EXIF
TURNS = {  # its value -> what turns the image upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
SIDEWAYS = (5, 6, 7, 8)  # width and height change places
ANIMATED = ("GIF", "PNG", "TIFF", "WEBP")  # MPO has previews as further frames
HEAD = 24  # bytes that show what a file is
CHUNK = 16  # files per thread at a time
SHOWN = 3  # files named in a message
THREADS = min(8, os.cpu_count() or 1)


class ImageInfo(NamedTuple):
    """Properties of an image before decoding."""

    shape: tuple[int, int]  # height, width; upright
    grey: bool
    digest: bytes  # of the file
    frames: int  # of which the first is read


def is_image(name: str) -> bool:
    """Returns whether a file name is that of an image; hidden files are not."""
    return name.lower().endswith(ENDINGS) and not name.startswith(".")


def read_infos(name: str, files: Sequence[str]) -> list[ImageInfo]:
    """Reads the properties of image files, in their order."""
    return [info for infos in _map_files(name, files, _read_info) for info in infos]


def decode_batches(
    name: str, files: Sequence[str], grey: bool, size: int
) -> Iterator[np.ndarray]:
    """Yields batches of images [n, height, width, 1 if grey or 3], in order.

    Images are resized to `size` x `size` pixels unless `size` is 0.
    """

    def read_image(path):
        return decode(atomic.read(path), grey, size)

    for images in _map_files(name, files, read_image):
        if images:
            yield np.stack(images)


def _map_files(name, files, read):
    """Yields lists of results of `read` in the order of files.

    Raises:
      UserError: after the last file, if some files failed.
    """
    failed = []

    def read_chunk(paths):
        results = []
        for path in paths:
            try:
                results.append(read(path))
            except Exception as error:  # Pillow raises half a dozen kinds
                failed.append(f"{path} ({_reason(error, path)})")
        return results

    starts = range(0, len(files), CHUNK)
    with ThreadPoolExecutor(THREADS) as threads:
        for i in range(0, len(starts), THREADS):
            group = starts[i : i + THREADS]  # no more at once: memory stays bounded
            yield from threads.map(read_chunk, [files[s : s + CHUNK] for s in group])
    if failed:
        failed.sort()
        more = f" and {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        raise errors.UserError(
            f"{name}: {len(failed)} of {len(files)} images cannot be read: "
            f"{'; '.join(failed[:SHOWN])}{more}. Remove these files or replace them by "
            "undamaged ones with 8 bits per channel."
        )


def check_one_size(name: str, files: Sequence[str], infos: Sequence[ImageInfo]) -> None:
    """Raises UserError, naming two files, if the images differ in size."""
    count = Counter(info.shape for info in infos)
    if len(count) == 1:
        return
    (usual, _), (other, _) = count.most_common(2)
    shapes = [info.shape for info in infos]
    first, second = (files[shapes.index(shape)] for shape in (usual, other))
    raise errors.UserError(
        f"{name}: images of {len(count)} sizes: {first} has {usual[1]} x {usual[0]} "
        f"pixels, but {second} has {other[1]} x {other[0]}. Set data.pixels to the "
        "height and width that all are to be resized to, for example 64.",
        advice=[{"data.pixels": 64}],
    )


def _read_info(path):
    content = atomic.read(path)
    with Image.open(io.BytesIO(content), formats=FORMATS) as image:
        if image.mode not in GREY_MODES + COLOUR_MODES:
            raise ValueError(f"values of mode {image.mode}, not of 8 bits")
        width, height = image.size
        if _orientation(image) in SIDEWAYS:
            width, height = height, width
        digest = hashlib.blake2b(content, digest_size=16).digest()
        frames = getattr(image, "n_frames", 1) if image.format in ANIMATED else 1
        return ImageInfo((height, width), image.mode in GREY_MODES, digest, frames)


def _orientation(image):
    """Returns the orientation in EXIF data, 1 (upright) if they say none."""
    if image.format == "PNG" and "exif" not in image.info:
        return 1  # Pillow would decode the image to look for it
    with contextlib.suppress(Exception):  # damaged EXIF data raise any kind
        return image.getexif().get(ORIENTATION, 1)
    return 1


def _reason(error, path):
    """Returns why an image cannot be read."""
    if not isinstance(error, UnidentifiedImageError):
        return errors.reason_of(error)
    with contextlib.suppress(OSError):
        return f"no image, as it begins with {atomic.read(path)[:HEAD]!r}"
    return "no image"


def decode(content: bytes, grey: bool, size: int) -> np.ndarray:
    """Decodes an image to [height, width, 1 or 3] uint8, without its transparency.

    It is turned upright, as cameras say in EXIF data.
    """
    with Image.open(io.BytesIO(content), formats=FORMATS) as opened:
        image: Image.Image = opened
        turn = TURNS.get(_orientation(opened))
        if image.mode in ("P", "PA"):
            image = image.convert("RGBA")  # or Pillow warns of lost transparency
        image = image.convert("L" if grey else "RGB")
        image = image if turn is None else image.transpose(turn)
    image_HWC = np.asarray(image).reshape(image.height, image.width, -1)
    return resize.resize(image_HWC, size) if size else image_HWC

"""Resizing of images, as in the loaders of the papers.

The filter is Pillow's bilinear one with antialiasing, as in torchvision's
`Resize((H, W))` of a Pillow image. Images become square whatever their aspect ratio.
"""

from collections.abc import Sequence

import numpy as np
from PIL import Image

from jaxproto import errors
from jaxproto.data.stored_rows import join_blocks

CHUNK = 1_000  # images at a time


def resize(image_HWC: np.ndarray, pixels: int) -> np.ndarray:
    """Resizes a uint8 image to [pixels, pixels, channels]."""
    if image_HWC.shape[:2] == (pixels, pixels):
        return image_HWC
    if image_HWC.shape[2] == 3:
        return _resize_plane(image_HWC, pixels)
    planes = np.moveaxis(image_HWC, 2, 0)  # alpha must not weigh the colours
    return np.stack([_resize_plane(plane, pixels) for plane in planes], axis=2)


def _resize_plane(image, pixels):
    image = Image.fromarray(np.ascontiguousarray(image))
    return np.asarray(image.resize((pixels, pixels), Image.Resampling.BILINEAR))


def resize_and_join(name: str, parts: Sequence[np.ndarray], pixels: int) -> np.ndarray:
    """Joins images [N, height, width, channels], resized unless `pixels` is 0.

    With `pixels` 0, parts may be arrays of any numbers.
    """
    shape = parts[0].shape[1:]
    if pixels:
        check_images(name, parts[0])
        shape = (pixels, pixels, shape[2])
    blocks = (x[i : i + CHUNK] for x in parts for i in range(0, len(x), CHUNK))
    if pixels:
        blocks = (np.stack([resize(image, pixels) for image in x]) for x in blocks)
    return join_blocks((sum(map(len, parts)), *shape), parts[0].dtype, blocks)


def check_not_text(name: str, pixels: int) -> None:
    """Raises UserError if `pixels` is not 0, as texts have none."""
    if pixels:
        raise errors.UserError(
            f"{name}: data.pixels is {pixels}, but texts have no pixels. Set it to 0.",
            advice=[{"data.pixels": 0}],
        )


def check_images(name: str, x: np.ndarray) -> None:
    """Raises UserError unless `x` holds uint8 images."""
    if x.dtype != np.uint8 or x.ndim != 4:
        raise errors.UserError(
            f"{name}: data.pixels resizes uint8 images, but the examples have shape "
            f"{x.shape[1:]} and type {x.dtype}. Set data.pixels to 0.",
            advice=[{"data.pixels": 0}],
        )

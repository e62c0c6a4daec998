"""Scale of inputs: floats that are pixels, and the values that networks see."""

from collections.abc import Mapping

import numpy as np

from jaxproto import errors

SCALED = 2  # largest float of an image that is scaled already
WHITE = 255
ROWS = 2_000  # training examples that are described
MANY = 4  # channels up to which each is described


def are_pixels(x: np.ndarray) -> bool:
    """Returns whether floats are whole numbers from 0 to 255."""
    return bool((x >= 0).all() and (x <= WHITE).all() and (x == np.rint(x)).all())


def to_pixels(
    name: str, parts: Mapping[str, np.ndarray]
) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """Returns checked inputs of all parts, pixels in floats as uint8, and notes.

    Networks see uint8 images scaled to [-1, 1] and floats as they are. So floats of
    images (three axes and more) that look like pixels are read as uint8, or refused.
    """
    x = [*parts.values()]
    suspects = {array: x_N for array, x_N in parts.items() if _look_like_pixels(x_N)}
    if not suspects:
        return x, ()
    array, x_N = next(iter(suspects.items()))
    about = f"{name}: {array} has floats from {x_N.min():.4g} to {x_N.max():.4g}"
    if all(map(are_pixels, x)):
        read = "whole numbers in the shape of images, which are read as uint8 pixels"
        return [x_N.astype(np.uint8) for x_N in x], (f"{about}, {read}",)
    raise errors.UserError(
        f"{about} in the shape of images, which look like pixels. Networks see floats "
        "as they are, and uint8 from 0 to 255 scaled to [-1, 1]. Save all parts as "
        f"uint8, or scale them, for example by x / {x_N.max() / 2:.4g} - 1."
    )


def _look_like_pixels(x_N):
    if x_N.dtype.kind != "f" or x_N.ndim != 4 or x_N.min() < 0 or x_N.max() <= SCALED:
        return False
    return bool(x_N.max() <= WHITE or (x_N == np.rint(x_N)).all())


def describe(x: np.ndarray) -> str:
    """Returns range, mean and deviation of what networks see, in words.

    Args:
      x: training inputs [N, ...], uint8 or floats, of which some are looked at.
    """
    seen = x[:: -(-len(x) // ROWS)]
    some = f" (of {len(seen):,} examples)" if len(seen) < len(x) else ""
    if images := x.dtype == np.uint8:
        seen = (seen.astype(np.float32) / WHITE - 0.5) / 0.5
    by_channel = seen.reshape(-1, seen.shape[-1]).astype(np.float64).T
    kind = "channel" if seen.ndim == 4 else "feature"
    scaled = "pixels scaled to [-1, 1]" if images else "values as they are"
    if len(by_channel) <= MANY:
        own = [_moments(channel) for channel in by_channel]
        text = "; ".join(
            [f"{kind} {i}: {o}" for i, o in enumerate(own)] if len(own) > 1 else own
        )
    else:
        deviations = by_channel.std(axis=1)
        text = (
            f"{_moments(by_channel)}; deviation of a {kind} {deviations.min():.3g} to "
            f"{deviations.max():.3g}"
        )
    return f"{scaled}: {text}{some}"


def _moments(values):
    low, high = values.min(), values.max()
    return (
        f"{low:.3g} to {high:.3g}, mean {values.mean():.3g}, "
        f"deviation {values.std():.3g}"
    )

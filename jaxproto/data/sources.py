"""Every data set by name: `digits`, `spiral`, `npz:PATH`, `tfds:NAME`, ..."""

import os

import numpy as np

from jaxproto import errors
from jaxproto.data import npz, prepared, spiral
from jaxproto.data.source import Source, assemble


def digits(seed: int = 0) -> Source:
    """The 1797 8x8 digits that scikit-learn ships; no official test part, no download.

    Source: UCI "Optical Recognition of Handwritten Digits", its test file. Grey levels
    0..16 become 0..255.
    """
    del seed
    import sklearn.datasets  # takes a second: only who needs it pays

    x_NHW, y_N = sklearn.datasets.load_digits(return_X_y=True)
    x_NHW = np.rint(x_NHW.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    return assemble("digits", (x_NHW, y_N))


def spiral_fednh(seed: int = 0) -> Source:
    """The spiral as FedNH's code draws it, the default reading (D17)."""
    return assemble("spiral", spiral.points(spiral.fednh_angles, seed))


def spiral_literal(seed: int = 0) -> Source:
    """The spiral as the ProtoNorm paper prints it."""
    return assemble("spiral_literal", spiral.points(spiral.literal_angles, seed))


SOURCES = {  # name -> seed -> Source
    "digits": digits,
    "spiral": spiral_fednh,
    "spiral_literal": spiral_literal,
}
PREFIXES = {  # prefix -> what follows the colon, data_dir -> Source
    "npz": lambda path, data_dir: npz.load(path),
    "tfds": lambda name, data_dir: prepared.load(name, data_dir),
}


def load(
    name: str, *, data_dir: str | os.PathLike | None = None, seed: int = 0
) -> Source:
    """Returns the data set called `name`.

    Args:
      name: one of SOURCES, npz:PATH, or tfds:NAME[/CONFIG][:VERSION].
      data_dir: where TFDS sets lie prepared; TFDS's own default if None.
      seed: of the sets that are drawn (the spirals).

    Raises:
      UserError: the data set is unknown, unreadable or unfit to train on.
    """
    prefix, colon, rest = name.partition(":")
    if colon:
        return PREFIXES[errors.pick("data set prefix", prefix, PREFIXES)](
            rest, data_dir
        )
    there = [*SOURCES, "npz:PATH", "tfds:NAME"]
    return SOURCES[errors.pick("data set", name, there)](seed)

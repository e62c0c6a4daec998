"""Data sets that need no files: scikit-learn's digits, and spirals."""

import numpy as np

from jaxproto.data import spiral
from jaxproto.data.dataset import Dataset, make_dataset


def digits(seed: int = 0) -> Dataset:
    """Returns scikit-learn's 1797 digits of 8x8 pixels, without official test part.

    Source: UCI "Optical Recognition of Handwritten Digits", its test file. Grey levels
    0..16 become 0..255.
    """
    import sklearn.datasets  # imported here, as it takes a second

    x_NHW, y_N = sklearn.datasets.load_digits(return_X_y=True)
    x_NHW = np.rint(x_NHW.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    return make_dataset("digits", (x_NHW, y_N))


def spiral_fednh(seed: int = 0) -> Dataset:
    """Returns the spiral as FedNH's code draws it, the default variant."""
    return make_dataset("spiral", spiral.points(spiral.fednh_angles, seed))


def spiral_literal(seed: int = 0) -> Dataset:
    """Returns the spiral as the ProtoNorm paper prints it."""
    return make_dataset("spiral_literal", spiral.points(spiral.literal_angles, seed))

"""Data sets by name: `digits`, `spiral`, `npz:PATH`, `tfds:NAME`, ..."""

import os

import numpy as np

from jaxproto import errors
from jaxproto.data import decoded_cache, spiral
from jaxproto.data.dataset import Dataset, make_dataset
from jaxproto.data.readers import csv_texts, image_folder, npz, tfds
from jaxproto.data.resize import check_pixels, resize_and_join


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


def find(path: str, data_dir: str | os.PathLike | None) -> str:
    """Returns a relative path in `data_dir` if it exists there, else the path."""
    inside = os.path.join(data_dir or "", os.path.expanduser(path))
    return inside if os.path.exists(inside) else path


NODES = "nodes"  # the nodes of a federation have the examples: `data/nodes.py`
DATASETS = {  # name -> seed -> Dataset
    "digits": digits,
    "spiral": spiral_fednh,
    "spiral_literal": spiral_literal,
}
PREFIXES = {  # prefix -> text after the colon, data_dir, pixels -> Dataset
    "csv": lambda path, folder, size: csv_texts.load(find(path, folder), size),
    "domains": lambda path, folder, size: image_folder.load(
        find(path, folder), size, True
    ),
    "folder": lambda path, folder, size: image_folder.load(find(path, folder), size),
    "npz": lambda path, folder, size: npz.load(find(path, folder), size),
    "tfds": tfds.load,
}


def load(
    name: str,
    *,
    data_dir: str | os.PathLike | None = None,
    seed: int = 0,
    pixels: int = 0,
) -> Dataset:
    """Returns the data set called `name`.

    Args:
      name: one of DATASETS, csv:PATH, domains:PATH, folder:PATH, npz:PATH, or
        tfds:NAME[/CONFIG][:VERSION].
      data_dir: folder of prepared TFDS sets, or of files with a relative path.
      seed: of data sets that are drawn (the spirals).
      pixels: height and width that images are resized to; 0 does not resize.
    """
    check_pixels(pixels)
    prefix, colon, rest = name.partition(":")
    if colon:
        read = PREFIXES[errors.choose_from("data set prefix", prefix, PREFIXES)]
        return read(rest, data_dir, pixels)
    if name == NODES:
        raise errors.UserError(
            "data.name=nodes: the examples are on the nodes of a federation, each of "
            "which names its own; run it with `python -m jaxproto flower`, or choose "
            "another data.name."
        )
    paths = ["csv:PATH", "domains:PATH", "folder:PATH", "npz:PATH", "tfds:NAME"]
    names = [*DATASETS, NODES, *paths]
    dataset = DATASETS[errors.choose_from("data set", name, names)](seed)
    if pixels:
        x = resize_and_join(name, [dataset.x], pixels, decoded_cache.store_in_memory)
        return dataset._replace(x=x)
    return dataset

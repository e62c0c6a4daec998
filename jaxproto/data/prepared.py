"""Data sets that TFDS has prepared as ArrayRecord, read without TensorFlow.

A prepared set lies in DATA_DIR/NAME[/CONFIG]/VERSION. One thread decodes: two were 1.6
times slower on Fashion-MNIST (small images are mostly Python under the interpreter's
lock).
"""

import contextlib
import os
import pathlib
import re

import absl.logging
import numpy as np

from jaxproto import errors
from jaxproto.data import source

SPLITS = ("train", "validation", "test")  # pooled in this order, specification 4.1
CHUNK = 1_000  # records read at a time, so that their bytes never pile up


def load(name: str, data_dir: str | os.PathLike | None = None) -> source.Source:
    """Returns the prepared data set NAME, NAME/CONFIG or NAME:VERSION.

    The last of the splits train, validation, test is the official test part; the
    others together are the training part.

    Args:
      name: as TFDS spells it; without a version, the newest that is there.
      data_dir: holds the prepared sets; TFDS's own default (TFDS_DATA_DIR or
        ~/tensorflow_datasets) if None.

    Raises:
      UserError: no such directory, set or version; damaged files; a set without inputs
        of one fixed shape or without class labels; data that `source.assemble`
        refuses.
    """
    path = find(name, data_dir)
    with _explained(name, path):
        import tensorflow_datasets as tfds  # takes a second: only who needs it pays

        builder = tfds.builder_from_directory(path)
        features, splits = builder.info.features, [*builder.info.splits]
    keys = _keys(name, builder.info)
    empty = _empty_row(name, keys[0], features[keys[0]])
    parts = []
    for split in _parts(name, splits):
        with _explained(name, f"{path}, split {split!r},"):
            parts.append(_decode(builder.as_data_source(split), keys, empty))
    test = parts.pop() if len(parts) > 1 else None
    train = (
        parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
    )
    classes = features[keys[1]].num_classes
    return source.assemble(f"tfds:{name}", tuple(train), test, classes)


def find(name: str, data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """Returns the directory of the version that `name` asks for, or of the newest.

    Raises:
      UserError: names the directory and the sets and versions that are there.
    """
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    root = pathlib.Path(data_dir or default).expanduser().absolute()
    name, _, version = name.partition(":")
    folders = [*root.glob("*/*"), *root.glob("*/*/*")]  # NAME/VERSION, with a CONFIG
    versions = sorted(filter(_is_version, folders), key=_order)
    sets = {path.parent.relative_to(root).as_posix() for path in versions}
    if not sets:
        raise errors.UserError(
            f"tfds:{name}: no prepared data set in {root}"
            f"{'' if root.is_dir() else ', which is not a directory'}. Point data_dir "
            "(or TFDS_DATA_DIR) at the directory that holds NAME/VERSION."
        )
    errors.pick(f"data set prepared in {root}", name, sets)
    there = [path.name for path in versions if path.parent == root / name]
    if version:
        errors.pick(f"version of {name} in {root}", version, there)
    return root / name / (version or there[-1])


def _is_version(path):
    return re.fullmatch(r"\d+\.\d+\.\d+", path.name) and path.is_dir()


def _order(path):
    return [int(number) for number in path.name.split(".")]


@contextlib.contextmanager
def _explained(name, where):
    """Turns whatever TFDS, riegeli or PIL raise into our words, and hushes TFDS."""
    level = absl.logging.get_verbosity()
    absl.logging.set_verbosity(absl.logging.ERROR)  # "OpenCV is not installed ..."
    try:
        yield
    except ImportError as error:
        raise errors.UserError(
            f"tfds:{name}: reading it needs the package {error.name!r}. Install it."
        ) from error
    except Exception as error:
        raise errors.UserError(
            f"tfds:{name}: {where} cannot be read ({type(error).__name__}: {error}). "
            "It is damaged or incomplete: prepare or copy it again."
        ) from error
    finally:
        absl.logging.set_verbosity(level)


def _keys(name, info):
    """Returns the names of the input and of the label."""
    keys = info.supervised_keys or ("image", "label")
    fine = all(isinstance(key, str) and key in info.features for key in keys)
    if not fine or len(keys) != 2 or not hasattr(info.features[keys[1]], "num_classes"):
        raise errors.UserError(
            f"tfds:{name}: no pair of an input and a class label among its features "
            f"{', '.join(sorted(info.features))}. "
            "Use a classification data set, or save it as npz."
        )
    return keys


def _empty_row(name, key, feature):
    """Returns an array without rows, with the shape and type that the input has."""
    if None in feature.shape or feature.np_dtype.kind not in "uif":
        raise errors.UserError(
            f"tfds:{name}: {key!r} has shape {feature.shape} and type "
            f"{feature.np_dtype}, but a network needs one fixed shape of numbers. "
            "Bring every example to one size and save the set as npz."
        )
    return np.empty((0, *feature.shape), feature.np_dtype)


def _parts(name, splits):
    there = [split for split in SPLITS if split in splits]
    if "train" not in there:
        raise errors.UserError(
            f"tfds:{name}: no split 'train'; there are: {', '.join(sorted(splits))}. "
            "Prepare the training split too."
        )
    return there


def _decode(records, keys, empty):
    x = np.empty((len(records), *empty.shape[1:]), empty.dtype)
    y = np.empty(len(records), np.int64)
    for start in range(0, len(y), CHUNK):
        rows = range(start, min(start + CHUNK, len(y)))
        for row, record in zip(rows, records.__getitems__([*rows]), strict=True):
            x[row], y[row] = record[keys[0]], record[keys[1]]
    return x, y

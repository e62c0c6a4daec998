"""Data sets that TFDS has prepared as ArrayRecord, read without TensorFlow.

A prepared set lies in DATA_DIR/NAME[/CONFIG]/VERSION. Images of one size are decoded
by one thread: two were 1.6 times slower on Fashion-MNIST (small images are mostly
Python under the interpreter's lock). Those of many sizes are photographs: several do.
"""

import contextlib
import os
import pathlib
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import absl.logging
import numpy as np

from jaxproto import errors
from jaxproto.data import dataset, decoded_cache, image_files
from jaxproto.data.resize import check_images, check_not_text, resize

SPLITS = ("train", "validation", "test")  # pooled in this order
CHUNK = 1_000  # records read at a time, so that their bytes never pile up
TITLE = "title"  # a text beside the text, as AG News has, comes first


def load(
    name: str, data_dir: str | os.PathLike | None = None, pixels: int = 0
) -> dataset.Dataset:
    """Reads the prepared data set NAME, NAME/CONFIG or NAME:VERSION.

    The last of the splits train, validation, test is the official test part; the
    others together are the training part. Images are decoded once, see `cache`.

    Args:
      name: of TFDS; without a version, the newest one.
      data_dir: holds the prepared sets; TFDS's own default (TFDS_DATA_DIR or
        ~/tensorflow_datasets) if None.
      pixels: height and width that images are resized to; 0 leaves them as they are.
    """
    path = find_version(name, data_dir)
    files = sorted(file for file in path.iterdir() if file.is_file())
    what: dict[str, str | int] = {
        "kind": "tfds",
        "files": decoded_cache.fingerprint(files),
        "pixels": pixels,
    }
    name = f"tfds:{name}"
    return decoded_cache.load_or_decode(
        name, what, lambda begin: _read(name, path, pixels, begin)
    )


def _read(name, path, pixels, begin):
    with _explained(name, path):
        import tensorflow_datasets as tfds  # imported here, as it takes a second

        info = (builder := tfds.builder_from_directory(path)).info
    keys = _keys(name, info)
    feature, label = (info.features[key] for key in keys)
    if isinstance(feature, tfds.features.Text):
        check_not_text(name, pixels)
        read = _texts([TITLE, *keys] if TITLE in info.features else keys)
    else:
        shape, dtype = _form(name, keys[0], feature, pixels)
        numbers = (info.splits[split].num_examples for split in _parts(name, info))
        sink = begin((sum(numbers), *shape), dtype)
        read = _arrays(keys, shape, pixels, None in feature.shape, sink)
    y = []
    for split in _parts(name, info):
        with _explained(name, f"{path}, split {split!r},"):
            y.append(read.each(builder.as_data_source(split)))
    x_N, y_N = read.all(), np.concatenate(y)
    cut = len(x_N) - (len(y[-1]) if len(y) > 1 else 0)
    return dataset.make_dataset(
        name,
        (x_N[:cut], y_N[:cut]),
        (x_N[cut:], y_N[cut:]) if len(y) > 1 else None,
        label.num_classes,
        classes=label.names,
        join=lambda parts: x_N,
    )


def find_version(name: str, data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """Returns the directory of the version in `name`, or of the newest.

    The configuration may be left out if there is only one.
    """
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    root = pathlib.Path(data_dir or default).expanduser().absolute()
    name, _, version = name.partition(":")
    folders = [*root.glob("*/*"), *root.glob("*/*/*")]  # NAME/VERSION, with a CONFIG
    versions = sorted(
        (p for p in folders if re.fullmatch(r"\d+\.\d+\.\d+", p.name) and p.is_dir()),
        key=lambda path: [int(number) for number in path.name.split(".")],
    )
    sets = {path.parent.relative_to(root).as_posix() for path in versions}
    if not sets:
        raise errors.UserError(
            f"tfds:{name}: no prepared data set in {root}"
            f"{'' if root.is_dir() else ', which is not a directory'}. Point data_dir "
            "(or TFDS_DATA_DIR) at the directory that holds NAME/VERSION, or make it: "
            f"python -m jaxproto prepare {name}"
        )
    configs = [there for there in sorted(sets) if there.startswith(f"{name}/")]
    name = configs[0] if name not in sets and len(configs) == 1 else name
    errors.choose_from(f"data set prepared in {root}", name, sets)
    there = [path.name for path in versions if path.parent == root / name]
    if version:
        errors.choose_from(f"version of {name} in {root}", version, there)
    return root / name / (version or there[-1])


@contextlib.contextmanager
def _explained(name, where):
    """Turns errors of TFDS, riegeli and PIL into UserError, and silences TFDS."""
    level = absl.logging.get_verbosity()
    absl.logging.set_verbosity(absl.logging.ERROR)  # "OpenCV is not installed ..."
    try:
        yield
    except errors.UserError:
        raise
    except ImportError as error:
        raise errors.UserError(
            f"{name}: reading it needs the package {error.name!r}. Install it."
        ) from error
    except Exception as error:
        raise errors.UserError(
            f"{name}: {where} cannot be read ({type(error).__name__}: {error}). "
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
            f"{name}: no pair of an input and a class label among its features "
            f"{', '.join(sorted(info.features))}. "
            "Use a classification data set, or save it as npz."
        )
    return keys


def _form(name, key, feature, pixels):
    """Returns the shape and type of an input in the cache."""
    shape = feature.shape
    dtype = np.dtype(np.float32 if feature.np_dtype.kind == "f" else feature.np_dtype)
    if pixels:
        check_images(name, np.empty((0, *(size or 1 for size in shape)), dtype))
        shape = (pixels, pixels, shape[2])
    if None in shape or dtype.kind not in "uif":
        raise errors.UserError(
            f"{name}: {key!r} has shape {feature.shape} and type {feature.np_dtype}, "
            "but a network needs one fixed shape of numbers. Set data.pixels to the "
            "height and width that images are to be resized to, for example 64."
        )
    return (*shape, 1) if len(shape) == 2 else shape, dtype


def _parts(name, info):
    there = [split for split in SPLITS if split in info.splits]
    if "train" not in there:
        raise errors.UserError(
            f"{name}: no split 'train'; there are: {', '.join(sorted(info.splits))}. "
            "Prepare the training split too."
        )
    return there


class RecordReader(NamedTuple):
    """Consumer of the records of a split."""

    each: Callable[[Sequence], np.ndarray]  # hands its inputs on, returns y [N]
    all: Callable[[], np.ndarray]  # the inputs of all splits


def _arrays(keys, shape, pixels, varies, sink):
    """Returns a reader of images and other numbers into a sink."""

    def one(record):
        x = record[keys[0]]
        return resize(x, pixels) if pixels else np.reshape(x, shape)

    def each(records):
        chunk = image_files.CHUNK * image_files.THREADS if varies else CHUNK
        y = np.empty(len(records), np.int64)
        with ThreadPoolExecutor(image_files.THREADS) as threads:
            decoded = partial(threads.map, records.__getitem__)
            decoded = decoded if varies else records.__getitems__
            for rows in _chunks(len(y), chunk):
                some = [(one(r), r[keys[1]]) for r in decoded(rows)]
                sink.append(np.stack([x for x, _ in some]))
                y[rows] = [label for _, label in some]
        return y

    return RecordReader(each, sink.finish)


def _texts(keys):
    """Returns a reader of texts (several keys joined by a space) and labels."""
    texts = []

    def text(value):
        return value if isinstance(value, str) else bytes(value).decode("utf-8")

    def each(records):
        y = []
        for rows in _chunks(len(records), CHUNK):
            for record in records.__getitems__(rows):
                texts.append(" ".join(text(record[key]) for key in keys[:-1]))
                y.append(record[keys[-1]])
        return np.array(y, np.int64)

    return RecordReader(each, lambda: np.array(texts, np.dtypes.StringDType()))


def _chunks(count, size):
    for start in range(0, count, size):
        yield [*range(start, min(start + size, count))]

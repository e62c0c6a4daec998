"""Data sets that TFDS has prepared as ArrayRecord, read without TensorFlow.

A prepared set lies in DATA_DIR/NAME[/CONFIG]/VERSION. `write_arrays` adds its images as
one array, which a later reading maps instead of decoding them.

One thread decodes images of one size: two were 1.6 times slower on Fashion-MNIST,
because small images spend most time under the interpreter's lock. Several threads
decode images of many sizes, which are photographs.
"""

import contextlib
import itertools
import os
import pathlib
import re
from concurrent.futures import ThreadPoolExecutor

import absl.logging
import numpy as np

from jaxproto import errors
from jaxproto.data import dataset
from jaxproto.data.resize import check_images, check_not_text, resize
from jaxproto.data.stored_rows import join_blocks
from jaxproto.io import atomic
from jaxproto.lab.data import image_files

SPLITS = ("train", "validation", "test")  # pooled in this order
MANY = 10_000  # images whose decoding is worth a note
CHUNK = 1_000  # records read at a time, so that memory stays bounded
TITLE = "title"  # feature that precedes the text, as in AG News


def load(
    name: str, data_dir: str | os.PathLike | None = None, pixels: int = 0
) -> dataset.Dataset:
    """Reads the prepared data set NAME, NAME/CONFIG or NAME:VERSION.

    The last of the splits train, validation, test is the official test part; the
    others together are the training part.

    Args:
      name: name in TFDS; without a version, the newest one is read.
      data_dir: folder of the prepared sets; TFDS's own default (TFDS_DATA_DIR or
        ~/tensorflow_datasets) if None.
      pixels: as in `registry.load`.
    """
    return _read(f"tfds:{name}", find_version(name, data_dir), pixels)


def write_arrays(path: pathlib.Path, pixels: int = 0) -> str:
    """Writes the images of a prepared set as one array, which `load` then maps.

    Returns why it does not, or "": images of several sizes need `pixels`. Texts have no
    array.

    Args:
      path: folder of its version.
      pixels: as in `registry.load`.
    """
    import tensorflow_datasets as tfds  # imported here, as it takes a second

    name, (x_file, y_file) = str(path), _array_files(path, pixels)
    with _user_errors(name, path):
        info = tfds.builder_from_directory(path).info
    feature = info.features[_keys(name, info)[0]]
    if isinstance(feature, tfds.features.Text) or x_file.exists():
        return ""
    if None in feature.shape and not pixels:
        return (
            "its images have several sizes, and every run decodes them; --pixels=64 "
            "writes them as an array, which runs with data.pixels=64 map"
        )
    data = _read(name, path, pixels)
    atomic.write_array(y_file, data.y)  # x is last, so that it is there with y alone
    atomic.write_array(x_file, data.x)
    return ""


def _read(name, path, pixels):
    """Reads all examples."""
    with _user_errors(name, path):
        import tensorflow_datasets as tfds  # imported here, as it takes a second

        info = (builder := tfds.builder_from_directory(path)).info
    input_key, label_key = _keys(name, info)
    feature, label = info.features[input_key], info.features[label_key]
    splits, y, notes = _splits(name, info), [], []
    sizes = [info.splits[split].num_examples for split in splits]

    def blocks(read, convert):
        """Yields lists of inputs, and extends `y` by their labels."""
        for split in splits:
            with _user_errors(name, f"{path}, split {split!r},"):
                for records in read(builder.as_data_source(split)):
                    pairs = [(convert(record), record[label_key]) for record in records]
                    y.extend(label for _, label in pairs)
                    yield [x for x, _ in pairs]

    if isinstance(feature, tfds.features.Text):
        check_not_text(name, pixels)
        keys = [key for key in (TITLE, input_key) if key in info.features]

        def join(record):
            return " ".join(map(_decode, map(record.get, keys)))

        texts = itertools.chain.from_iterable(blocks(_chunks, join))
        x_N = np.array([*texts], np.dtypes.StringDType())
    else:
        shape, dtype = _shape_and_type(name, input_key, feature, pixels)
        read = _chunks_in_threads if None in feature.shape else _chunks

        def fit(record):
            x = record[input_key]
            return resize(x, pixels) if pixels else np.reshape(x, shape)

        whole = (sum(sizes), *shape)
        if (mapped := _map_arrays(name, path, pixels, whole)) is not None:
            x_N, y = mapped
        else:
            notes += _note(name, sum(sizes), pixels)
            x_N = join_blocks(whole, dtype, map(np.stack, blocks(read, fit)))
    y_N, several = np.asarray(y, np.int64), len(splits) > 1
    train_size = len(x_N) - sizes[-1] * several
    made = dataset.make_dataset(
        name,
        (x_N[:train_size], y_N[:train_size]),
        (x_N[train_size:], y_N[train_size:]) if several else None,
        label.num_classes,
        classes=label.names,
        join=lambda parts: x_N,
    )
    return made._replace(notes=(*notes, *made.notes))


def _note(name, number, pixels):
    """Returns a note on how a large set starts fast."""
    flags = " with --data_dir of the set" + f" and --pixels={pixels}" * bool(pixels)
    return [
        f"{name}: every run decodes its {number:,} images, until `jaxproto prepare "
        f"{name.removeprefix('tfds:')}`{flags} has written them as one array"
    ] * (number >= MANY)


def _array_files(path: pathlib.Path, pixels: int) -> tuple[pathlib.Path, pathlib.Path]:
    size = f"-{pixels}" * bool(pixels)
    return path / f"x{size}.npy", path / f"y{size}.npy"


def _map_arrays(name, path, pixels, shape):
    """Maps what `write_arrays` has written; returns None if there is nothing."""
    x_file, y_file = _array_files(path, pixels)
    if not x_file.exists():
        return None
    with _user_errors(name, x_file):
        x_N, y_N = np.load(x_file, mmap_mode="r"), np.load(y_file)
        if x_N.shape != shape or len(y_N) != len(x_N):
            raise ValueError(f"shape {x_N.shape} with {len(y_N)} labels, not {shape}")
    return x_N, y_N


def prepared_folder(data_dir: str | os.PathLike | None) -> pathlib.Path:
    """Returns the folder of prepared sets: `data_dir`, or TFDS's own default."""
    default = os.environ.get("TFDS_DATA_DIR", "~/tensorflow_datasets")
    return pathlib.Path(data_dir or default).expanduser().absolute()


def find_version(name: str, data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """Returns the directory of the version that `name` has, or of the newest one.

    The configuration may be left out if there is only one.
    """
    root = prepared_folder(data_dir)
    name, _, version = name.partition(":")
    folders = [*root.glob("*/*"), *root.glob("*/*/*")]  # NAME[/CONFIG]/VERSION
    versions = sorted(
        (p for p in folders if re.fullmatch(r"\d+\.\d+\.\d+", p.name) and p.is_dir()),
        key=lambda path: [int(number) for number in path.name.split(".")],
    )
    names = {path.parent.relative_to(root).as_posix() for path in versions}
    if not names:
        raise errors.UserError(
            f"tfds:{name}: no prepared data set in {root}"
            f"{'' if root.is_dir() else ', which is not a directory'}. Point data_dir "
            "(or TFDS_DATA_DIR) at the directory that holds NAME/VERSION, or make it: "
            f"python -m jaxproto prepare {name}"
        )
    configs = [n for n in names if n.startswith(f"{name}/")]
    name = configs[0] if name not in names and len(configs) == 1 else name
    errors.choose_from(f"data set prepared in {root}", name, names)
    present = [path.name for path in versions if path.parent == root / name]
    if version:
        errors.choose_from(f"version of {name} in {root}", version, present)
    return root / name / (version or present[-1])


@contextlib.contextmanager
def _user_errors(name, where):
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
            f"{name}: {where} cannot be read ({errors.reason_of(error)}). "
            "It is damaged or incomplete: prepare or copy it again."
        ) from error
    finally:
        absl.logging.set_verbosity(level)


def _keys(name, info):
    """Returns the names of the input and of the label."""
    keys = info.supervised_keys or ("image", "label")
    ok = all(isinstance(key, str) and key in info.features for key in keys)
    if not ok or len(keys) != 2 or not hasattr(info.features[keys[1]], "num_classes"):
        raise errors.UserError(
            f"{name}: no pair of an input and a class label among its features "
            f"{', '.join(sorted(info.features))}. "
            "Use a classification data set, or save it as npz."
        )
    return keys


def _shape_and_type(name, key, feature, pixels):
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


def _splits(name, info):
    """Returns the splits to read, in the order of rows."""
    splits = [split for split in SPLITS if split in info.splits]
    if "train" not in splits:
        raise errors.UserError(
            f"{name}: no split 'train'; there are: {', '.join(sorted(info.splits))}. "
            "Prepare the training split too."
        )
    return splits


def _decode(text: str | bytes) -> str:
    return text if isinstance(text, str) else bytes(text).decode("utf-8")


def _chunks(records):
    """Yields lists of at most `CHUNK` records."""
    for start in range(0, len(records), CHUNK):
        yield records.__getitems__([*range(len(records))[start : start + CHUNK]])


def _chunks_in_threads(records):
    """Yields iterators over a few records, which threads decode."""
    rows, chunk = range(len(records)), image_files.CHUNK * image_files.THREADS
    with ThreadPoolExecutor(image_files.THREADS) as threads:
        for start in range(0, len(records), chunk):
            yield threads.map(records.__getitem__, rows[start : start + chunk])

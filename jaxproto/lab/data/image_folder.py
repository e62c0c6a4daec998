"""Data sets from image files: a folder per class, as torchvision reads them.

    PATH/cat/1.png             PATH/train/cat/1.png
    PATH/dog/2.jpg             PATH/val/..., PATH/test/dog/2.jpg

With several domains, a folder of class folders per domain: PATH/sketch/cat/1.png.

Classes are the names of the folders, sorted. Images are in the order of class and path.
They are turned upright as their EXIF data say. Of several frames the first is read.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto import errors
from jaxproto.data import domains
from jaxproto.data.dataset import Dataset, make_dataset
from jaxproto.data.stored_rows import join_blocks
from jaxproto.lab.data import image_files

PARTS = {  # folder above the class folders -> official part
    "train": "train",
    "val": "train",  # pooled, docs/decisions.md#pool
    "valid": "train",
    "validation": "train",
    "test": "test",
}
NO_CLASS = re.compile(r"\.|__MACOSX$")  # .git, .ipynb_checkpoints and the like


class FolderListing(NamedTuple):
    """Contents of the folder."""

    files: dict[str, list[list[str]]]  # part -> images of each class
    classes: list[str]
    notes: list[str]

    @property
    def rows(self) -> list[str]:
        """Images of all parts in the order of rows."""
        return [file for part in self.files.values() for own in part for file in own]


def load(
    path: str | os.PathLike, size: int = 0, several_domains: bool = False
) -> Dataset:
    """Reads the data set in a folder of class folders.

    Args:
      path: folder of the class folders, which are all for training; or folder of
        train/, and perhaps val/ (pooled into train) and test/, with class folders.
      size: as `pixels` in `registry.load`.
      several_domains: whether the folders in `path` are domains of class folders.
    """
    kind = "domains" if several_domains else "folder"
    name = f"{kind}:{path}"
    root = Path(os.path.expanduser(path)).absolute()
    listing = _list(name, root, _domains if several_domains else _parts)
    dataset = _read(name, listing, size)
    dataset = dataset._replace(notes=(*listing.notes, *dataset.notes))
    if not several_domains:
        return dataset
    names = [Path(file).relative_to(root).parts[0] for file in listing.rows]
    return domains.attach_domains(dataset, np.array(names))


def load_domains(path: str | os.PathLike, size: int = 0) -> Dataset:
    """Reads the data set in a folder of domains, each a folder of class folders."""
    return load(path, size, several_domains=True)


def _list(name, root, parts_of):
    """Lists classes and images without opening any."""
    if not root.is_dir():
        raise errors.UserError(f"{name}: no such folder. Looked for {root}.")
    parts, notes = parts_of(name, root)
    classes = sorted({c for folders in parts.values() for f in folders for c in f})
    if not classes:
        raise errors.UserError(
            f"{name}: no class folders in {root}. Put the images of each class into a "
            "folder of its own, PATH/cat/1.png or PATH/train/cat/1.png."
        )
    files, other = {}, 0
    for part, folders in parts.items():
        files[part] = []
        for c in classes:
            found = [_images(name, root, f[c]) for f in folders if c in f]
            files[part].append([file for images, _ in found for file in images])
            other += sum(count for _, count in found)
    _check_not_empty(name, root, files)
    by_class = zip(classes, *files.values(), strict=True)
    empty = [c for c, *images in by_class if not any(images)]
    if empty:
        notes.append(
            f"{name}: {len(empty)} class folders are empty: {errors.first_few(empty)}"
        )
    if other:
        notes.append(f"{name}: {other} files that are no images are left out")
    return FolderListing(files, classes, notes)


def _parts(name, root):
    """Returns part -> [class -> folder], and notes on folders that are not read."""
    above = _folders(name, root)
    split = {part: _folders(name, above[part]) for part in PARTS if part in above}
    if not split.get("train"):
        if any(split.values()):
            raise errors.UserError(
                f"{name}: {root} has {errors.first_few(split)}, but no train. Name the "
                "folder of the training images train."
            )
        return {"train": [above]}, []
    _check_annotations(name, above)
    parts = {}
    for folder, classes in split.items():
        parts.setdefault(PARTS[folder], []).append(classes)
    left = [folder for folder in above if folder not in PARTS]
    note = f"{name}: beside train, these folders are not read: {errors.first_few(left)}"
    return {"train": parts["train"], **parts}, [note] * bool(left)


def _domains(name, root):
    """Returns the class folders of all domains as the training part, and no notes."""
    above = _folders(name, root)
    classes_of = {domain: _folders(name, folder) for domain, folder in above.items()}
    if empty := [domain for domain, classes in classes_of.items() if not classes]:
        raise errors.UserError(
            f"{name}: {errors.first_few(empty)} of {root} have no class folders. Put "
            "the images of each class and domain into a folder of its own, "
            "PATH/sketch/cat/1.png, or use folder:PATH for one domain."
        )
    return {"train": [*classes_of.values()]}, []


def _folders(name, path):
    """Returns name -> path of the folders in a folder, sorted, without hidden ones."""
    try:
        found = [p for p in path.iterdir() if not NO_CLASS.match(p.name) and p.is_dir()]
    except OSError as error:
        raise errors.UserError(
            f"{name}: {path} cannot be read: {error.strerror}."
        ) from error
    for folder in found:
        if bad := errors.first_unprintable(folder.name):
            raise errors.UserError(
                f"{name}: the folder {folder} has the character {bad} in its name, "
                "which cannot be printed. Rename it."
            )
    return {p.name: p for p in sorted(found)}


def _check_annotations(name, above):
    """Raises UserError if a table has the classes, as in Tiny ImageNet's archive."""
    for folder in above.values():
        tables = sorted(folder.glob("*_annotations.txt"))
        if tables:
            raise errors.UserError(
                f"{name}: {tables[0]} says the classes of the images in {folder}, not "
                "their folders. Move the images into class folders, or, if this is "
                "Tiny ImageNet, prepare it as tfds:tiny_imagenet."
            )


def _images(name, root, folder):
    """Returns the images below a class folder, and the number of other files."""
    files, other, seen = [], 0, set()
    for where, inner, names in os.walk(folder, followlinks=True):
        _check_link(name, root, where, seen)
        inner[:] = sorted(n for n in inner if not NO_CLASS.match(n))
        images = [n for n in names if image_files.is_image(n)]
        other += len(names) - len(images)
        files += [os.path.join(where, n) for n in sorted(images)]
    return files, other


def _check_link(name, root, where, seen):
    """Raises UserError for a link out of the data set, or to a folder already read.

    Such a link can lead to all files of a machine, or to an endless loop.
    """
    real = os.path.realpath(where)
    advice = "Replace the link by the folder, or name the folder that holds all."
    if not Path(real).is_relative_to(os.path.realpath(root)):
        raise errors.UserError(
            f"{name}: {where} is a link out of the folder, to {real}. {advice}"
        )
    if real in seen:
        raise errors.UserError(
            f"{name}: {where} is a link to {real}, which is read already. {advice}"
        )
    seen.add(real)


def _check_not_empty(name, root, files):
    """Raises UserError for a part without images."""
    for part, classes in files.items():
        if not any(classes):
            raise errors.UserError(
                f"{name}: no images in the class folders of the {part} part in {root}. "
                f"Images are files that end in {', '.join(image_files.ENDINGS)}."
            )


def _read(name, listing, size):
    """Reads all images, and returns the checked data set."""
    files = listing.rows
    y = {
        part: np.repeat(np.arange(len(images)), [*map(len, images)])
        for part, images in listing.files.items()
    }
    train_size = len(y["train"])
    infos = image_files.read_infos(name, files)
    notes = _duplicates(name, files, infos, np.concatenate([*y.values()]), train_size)
    grey = all(info.grey for info in infos)
    if not size:
        image_files.check_one_size(name, files, infos)
    shape = (size, size) if size else infos[0].shape
    shape = (len(files), *shape, 1 if grey else 3)
    blocks = image_files.decode_batches(name, files, grey, size)
    x = join_blocks(shape, np.dtype(np.uint8), blocks)
    dataset = make_dataset(
        name,
        (x[:train_size], y["train"]),
        (x[train_size:], y["test"]) if "test" in y else None,
        len(listing.classes),
        classes=listing.classes,
        join=lambda parts: x,
    )
    num_grey = sum(info.grey for info in infos)
    if num_grey and not grey:
        notes.append(f"{name}: {num_grey} grey images among {len(infos)} become colour")
    if several := [info.frames for info in infos if info.frames > 1]:
        notes.append(
            f"{name}: {len(several)} images have {sum(several)} frames, of which the "
            "first of each is read"
        )
    return dataset._replace(notes=(*notes, *dataset.notes))


def _duplicates(name, files, infos, y_N, train_size):
    """Returns notes on files with equal content.

    Raises:
      UserError: files of two classes have equal content.
    """
    first_row, copies, leaks = {}, [], 0
    for row, info in enumerate(infos):
        first = first_row.setdefault(info.digest, row)
        if first == row:
            continue
        if y_N[first] != y_N[row]:
            raise errors.UserError(
                f"{name}: {files[first]} and {files[row]} are the same file in two "
                "classes. Remove the wrong one."
            )
        copies.append((first, row))
        leaks += first < train_size <= row
    if not copies:
        return []
    first, row = copies[0]
    leaked = f"; {leaks} of them are test images of training ones" * (leaks > 0)
    return [
        f"{name}: {len(copies)} images are copies of others, such as {files[row]} of "
        f"{files[first]}{leaked}"
    ]

"""Data sets from image files: a folder per class, as torchvision reads them.

    PATH/cat/1.png             PATH/train/cat/1.png
    PATH/dog/2.jpg             PATH/val/..., PATH/test/dog/2.jpg

With several domains, a folder of class folders per domain: PATH/sketch/cat/1.png.

Classes are the names of the folders, sorted; images are in order of class and path.
The orientation in EXIF data is ignored, and the first of several frames is read.
"""

import os
import re
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jaxproto import errors
from jaxproto.data import decoded_cache, domains, image_files
from jaxproto.data.dataset import Dataset, make_dataset

PARTS = {  # folders above the classes, and the part that they belong to
    "train": "train",
    "val": "train",  # pooled, docs/decisions.md#pool
    "valid": "train",
    "validation": "train",
    "test": "test",
}
NO_CLASS = re.compile(r"\.|__MACOSX$")  # .git, .ipynb_checkpoints and the like


class FolderListing(NamedTuple):
    """Contents of the folder."""

    files: dict[str, list[list[str]]]  # part -> class -> images
    classes: list[str]
    notes: list[str]

    @property
    def rows(self) -> list[str]:
        """Images of all parts in the order of rows."""
        return [file for part in self.files.values() for some in part for file in some]


def load(
    path: str | os.PathLike, size: int = 0, several_domains: bool = False
) -> Dataset:
    """Reads the data set in a folder of class folders.

    Args:
      path: the folder. With train/ in it (and val/, which is pooled into it, and
        test/), the class folders lie there; without, all of it is for training.
      size: as `pixels` in `registry.load`.
      several_domains: whether the folders in `path` are domains of class folders.
    """
    name = f"{'domains' if several_domains else 'folder'}:{path}"
    root = Path(os.path.expanduser(path)).absolute()
    found = _list(name, root, _domains if several_domains else _parts)
    made = decoded_cache.load_or_decode(
        name,
        partial(_read, name, found, size),
        kind="folder",
        path=str(root),
        classes="/".join(found.classes),
        files=decoded_cache.fingerprint(found.rows),
        pixels=size,
    )
    made = made._replace(notes=(*found.notes, *made.notes))
    if not several_domains:
        return made
    names = [Path(file).relative_to(root).parts[0] for file in found.rows]
    return domains.attach_domains(made, np.array(names))


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
            inside = [_inside(name, root, f[c]) for f in folders if c in f]
            files[part].append([file for some, _ in inside for file in some])
            other += sum(count for _, count in inside)
    _check_some(name, root, files)
    empty = [
        c for c, *some in zip(classes, *files.values(), strict=True) if not any(some)
    ]
    if empty:
        notes.append(
            f"{name}: {len(empty)} class folders are empty: {errors.first_few(empty)}"
        )
    if other:
        notes.append(f"{name}: {other} files that are no images are left out")
    return FolderListing(files, classes, notes)


def _parts(name, root):
    """Returns part -> [class -> folder], and a note on folders that are not read."""
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
    """Returns the class folders of all domains as the training part."""
    above = _folders(name, root)
    each = {domain: _folders(name, folder) for domain, folder in above.items()}
    if empty := [domain for domain, classes in each.items() if not classes]:
        raise errors.UserError(
            f"{name}: {errors.first_few(empty)} of {root} have no class folders. Put "
            "the images of each class and domain into a folder of its own, "
            "PATH/sketch/cat/1.png, or use folder:PATH for one domain."
        )
    return {"train": [*each.values()]}, []


def _folders(name, path):
    """Returns name -> path of the folders in a folder, sorted, without hidden ones."""
    try:
        found = [p for p in path.iterdir() if not NO_CLASS.match(p.name) and p.is_dir()]
    except OSError as error:
        raise errors.UserError(
            f"{name}: {path} cannot be read: {error.strerror}."
        ) from error
    for one in found:
        if bad := errors.first_unprintable(one.name):
            raise errors.UserError(
                f"{name}: the folder {one} has the character {bad} in its name, which "
                "cannot be printed. Rename it."
            )
    return {p.name: p for p in sorted(found)}


def _check_annotations(name, above):
    """Raises UserError for val/images and a table, as of downloaded Tiny ImageNet."""
    for folder in above.values():
        tables = sorted(folder.glob("*_annotations.txt"))
        if tables:
            raise errors.UserError(
                f"{name}: {tables[0]} says the classes of the images in {folder}, not "
                "their folders. Move the images into class folders, or, if this is "
                "Tiny ImageNet, prepare it as tfds:tiny_imagenet."
            )


def _inside(name, root, folder):
    """Returns the images in a class folder, at any depth; how many files are none."""
    files, other, seen = [], 0, set()
    for where, inner, names in os.walk(folder, followlinks=True):
        _check_link(name, root, where, seen)
        inner[:] = sorted(n for n in inner if not NO_CLASS.match(n))
        good = [n for n in names if image_files.is_image(n)]
        other += len(names) - len(good)
        files += [os.path.join(where, n) for n in sorted(good)]
    return files, other


def _check_link(name, root, where, seen):
    """Raises UserError for a link that leaves the data set, or that loops.

    Such a link can lead to all files of a machine, or to an endless loop.
    """
    real = os.path.realpath(where)
    way = "Replace the link by the folder, or name the folder that holds all."
    if not Path(real).is_relative_to(os.path.realpath(root)):
        raise errors.UserError(
            f"{name}: {where} is a link out of the folder, to {real}. {way}"
        )
    if real in seen:
        raise errors.UserError(
            f"{name}: {where} is a link to {real}, which is read already. {way}"
        )
    seen.add(real)


def _check_some(name, root, files):
    for part, classes in files.items():
        if not any(classes):
            raise errors.UserError(
                f"{name}: no images in the class folders of the {part} part in {root}. "
                f"Images are files that end in {', '.join(image_files.ENDINGS)}."
            )


def _read(name, found, size, store):
    """Reads and stores all images, and returns the checked data set."""
    every = found.rows
    y = {
        part: np.repeat(np.arange(len(classes)), [*map(len, classes)])
        for part, classes in found.files.items()
    }
    cut = len(y["train"])
    heads = image_files.read_infos(name, every)
    notes = _duplicates(name, every, heads, np.concatenate([*y.values()]), cut)
    grey = all(head.grey for head in heads)
    if not size:
        image_files.check_one_size(name, every, heads)
    shape = (size, size) if size else heads[0].shape
    shape = (len(every), *shape, 1 if grey else 3)
    blocks = image_files.decode_batches(name, every, grey, size)
    x = store(shape, np.dtype(np.uint8), blocks)
    train, test = (x[:cut], y["train"]), (x[cut:], y.get("test"))
    count = len(found.classes)
    options = {"classes": found.classes, "join": lambda parts: x}
    made = make_dataset(name, train, test if "test" in y else None, count, **options)
    some = sum(head.grey for head in heads)
    if some and not grey:
        notes.append(f"{name}: {some} grey images among {len(heads)} become colour")
    return made._replace(notes=(*notes, *made.notes))


def _duplicates(name, files, heads, y_N, cut):
    """Counts files with equal content; raises UserError for those of two classes."""
    first, copies, across = {}, [], 0
    for row, head in enumerate(heads):
        one = first.setdefault(head.digest, row)
        if one == row:
            continue
        if y_N[one] != y_N[row]:
            raise errors.UserError(
                f"{name}: {files[one]} and {files[row]} are the same file in two "
                "classes. Remove the wrong one."
            )
        copies.append((one, row))
        across += one < cut <= row
    if not copies:
        return []
    one, row = copies[0]
    leaked = f"; {across} of them are test images of training ones" * (across > 0)
    return [
        f"{name}: {len(copies)} images are copies of others, such as {files[row]} of "
        f"{files[one]}{leaked}"
    ]

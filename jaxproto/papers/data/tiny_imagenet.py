"""Tiny ImageNet-200: 64x64 images, 500 per class to train and 50 to validate.

Le and Yang, "Tiny ImageNet Visual Recognition Challenge", Stanford CS 231N, 2015,
http://cs231n.stanford.edu/reports/2015/pdfs/yle_project.pdf. The archive's test part
has no labels and is left out; train and validation pooled give the 110,000 examples of
docs/decisions.md#tiny-imagenet. The archive has all validation images in one folder;
val_annotations.txt has their classes.

Classes are numbered in the order of their WordNet ids, and examples lie in the order of
class and file name, as torchvision's ImageFolder has them.
"""

import pathlib
import re

import tensorflow_datasets as tfds

from jaxproto.errors import UserError
from jaxproto.papers.data import archives

ROOT = "tiny-imagenet-200"
SIZE = (64, 64)
ARCHIVE = archives.Archive(
    "tiny-imagenet-200.zip",
    "http://cs231n.stanford.edu/tiny-imagenet-200.zip",
    "90528d7ca1a48142e341f4ef8d21d0de",
    ROOT,
)


class TinyImagenet(tfds.core.GeneratorBasedBuilder):
    """The set `tiny_imagenet`, with the splits train and validation."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "Validation labels from val_annotations.txt."}  # noqa: RUF012
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"{ARCHIVE.name} from {ARCHIVE.url}, or unpacked."

    archives = (ARCHIVE,)
    official_sizes = {"train": 100_000, "validation": 10_000}  # noqa: RUF012

    def _info(self):
        features = {
            "image": tfds.features.Image(shape=(*SIZE, 3)),
            "label": tfds.features.ClassLabel(),  # names come with the archive
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description=__doc__,
            homepage="http://cs231n.stanford.edu",
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("image", "label"),
            disable_shuffling=True,  # partitions depend on the order
        )

    def _split_generators(self, dl_manager):
        (path,) = archives.fetch(self.archives, dl_manager)
        self.info.features["label"].names = names(path)
        return {
            "train": self._generate_examples(path, train),
            "validation": self._generate_examples(path, validation),
        }

    def _generate_examples(self, path, part):
        return part(path)


def names(path: pathlib.Path) -> list[str]:
    """Returns "wnid word" per class, such as "n01443537 goldfish"."""
    with archives.open_archive(path, ROOT) as files:
        words = {}
        if f"{ROOT}/words.txt" in files.names:
            lines = _lines(files, "words.txt")
            words = dict(line.split("\t", 1) for line in lines if "\t" in line)
        return [f"{c} {words.get(c, '').split(',')[0]}".strip() for c in _wnids(files)]


def train(path: pathlib.Path) -> archives.Examples:
    """Yields the training images of each class in turn."""
    with archives.open_archive(path, ROOT) as files:
        label = {wnid: c for c, wnid in enumerate(_wnids(files))}
        matches = files.matching(rf"{ROOT}/train/([^/]+)/images/[^/.][^/]*\.JPEG")
        if wrong := sorted({m[1] for m in matches} ^ {*label}):
            raise UserError(
                f"{files.where}: {len(wrong)} classes are in wnids.txt or in train/, "
                f"but not in both; the first is {wrong[0]}. Download it again."
            )
        for m in matches:  # in the order of wnid and file name
            image = archives.check_rgb(files, m[0], SIZE)
            yield m[0], {"image": image, "label": label[m[1]]}


def validation(path: pathlib.Path) -> archives.Examples:
    """Yields the validation images, labelled by val_annotations.txt, class by class."""
    with archives.open_archive(path, ROOT) as files:
        label = {wnid: c for c, wnid in enumerate(_wnids(files))}
        lines = _lines(files, "val/val_annotations.txt")
        wnid = {f"{ROOT}/val/images/{f}": c for f, c, *_ in map(str.split, lines)}
        images = {n for n in files.names if re.search(r"/val/images/[^/.][^/]*$", n)}
        if wrong := sorted(images ^ {*wnid}):
            raise UserError(
                f"{files.where}: {len(wrong)} validation images lack their annotation "
                f"or the other way round; the first is {wrong[0]}. Download it again."
            )
        if wrong := sorted({*wnid.values()} - {*label}):
            raise UserError(
                f"{files.where}: val_annotations.txt has class {wrong[0]}, which is "
                "not in wnids.txt. Download it again."
            )
        for name in sorted(wnid, key=lambda name: (label[wnid[name]], name)):
            image = archives.check_rgb(files, name, SIZE)
            yield name, {"image": image, "label": label[wnid[name]]}


def _wnids(files):
    """Returns the WordNet ids of the classes, in the order of labels."""
    return sorted(_lines(files, "wnids.txt"))


def _lines(files, name):
    """Returns the lines of a text file that are not blank."""
    if f"{ROOT}/{name}" not in files.names:
        raise UserError(f"{files.where}: {ROOT}/{name} is missing. Download it again.")
    lines = files.read(f"{ROOT}/{name}").decode().splitlines()
    return [line.strip() for line in lines if line.strip()]

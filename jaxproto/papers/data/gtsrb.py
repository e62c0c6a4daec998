"""GTSRB-43: German traffic signs in 43 classes, images of 15 to 250 pixels a side.

Stallkamp et al., "Man vs. computer: Benchmarking machine learning algorithms for
traffic sign recognition", Neural Networks 2012,
https://doi.org/10.1016/j.neunet.2012.02.016; archives as published on
https://benchmark.ini.rub.de.

Two configurations, with the same test part of 12,630 images:
  torchvision: trains on the 26,640 images that torchvision downloads; 39,270 in all,
    the number from which the papers' costs follow.
  official: trains on the 39,209 images of the final training set; 51,839 in all.

Examples lie in torchvision's order: class and file name, then the order of the test
annotations.
"""

import csv
import io
import pathlib

import tensorflow_datasets as tfds

from jaxproto.errors import UserError
from jaxproto.papers.data import archives

URL = "https://sid.erda.dk/public/archives/daaeac0d7ce1152aea9b61d9f1e19370/"
TRUTH = "GT-final_test.csv"


def _archive(name, md5, inside):
    return archives.Archive(name, URL + name, md5, inside)


TRAIN = {
    "torchvision": _archive(
        "GTSRB-Training_fixed.zip", "513f3c79a4c5141765e10e952eaa2478", "GTSRB/Training"
    ),
    "official": _archive(
        "GTSRB_Final_Training_Images.zip",
        "f33fd80ac59bff73c82d25ab499e03a3",
        "GTSRB/Final_Training/Images",
    ),
}
TEST = (
    _archive(
        "GTSRB_Final_Test_Images.zip",
        "c7e4e6327067d32654124b0fe9e82185",
        "GTSRB/Final_Test/Images",
    ),
    _archive("GTSRB_Final_Test_GT.zip", "fe31e9c9270bbcd7b84b7f21a9d9d9e5", TRUTH),
)
SIZES = {"torchvision": 26_640, "official": 39_209}
SIGNS = (
    *(f"Speed limit ({v} km/h)" for v in (20, 30, 50, 60, 70, 80)),
    "End of speed limit (80 km/h)",
    "Speed limit (100 km/h)",
    "Speed limit (120 km/h)",
    "No passing",
    "No passing for vehicles over 3.5 t",
    "Right-of-way at the next intersection",
    "Priority road",
    "Yield",
    "Stop",
    "No vehicles",
    "No vehicles over 3.5 t",
    "No entry",
    "General caution",
    "Dangerous curve to the left",
    "Dangerous curve to the right",
    "Double curve",
    "Bumpy road",
    "Slippery road",
    "Road narrows on the right",
    "Road work",
    "Traffic signals",
    "Pedestrians",
    "Children crossing",
    "Bicycles crossing",
    "Beware of ice and snow",
    "Wild animals crossing",
    "End of all speed and passing limits",
    "Turn right ahead",
    "Turn left ahead",
    "Ahead only",
    "Go straight or right",
    "Go straight or left",
    "Keep right",
    "Keep left",
    "Roundabout mandatory",
    "End of no passing",
    "End of no passing by vehicles over 3.5 t",
)


class Gtsrb43(tfds.core.GeneratorBasedBuilder):
    """The set `gtsrb43`, with the splits train and test."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "Images keep their sizes."}  # noqa: RUF012
    MANUAL_DOWNLOAD_INSTRUCTIONS = f"The zip archives from {URL}, or unpacked."
    BUILDER_CONFIGS = [  # noqa: RUF012
        tfds.core.BuilderConfig(name=name, description=f"{size} training images")
        for name, size in SIZES.items()
    ]

    @property
    def archives(self) -> tuple[archives.Archive, ...]:
        """Archives to download."""
        return (TRAIN[self.builder_config.name], *TEST)

    @property
    def official_sizes(self) -> dict[str, int]:
        """Numbers of examples in the archives."""
        return {"train": SIZES[self.builder_config.name], "test": 12_630}

    def _info(self):
        features = {
            "image": tfds.features.Image(shape=(None, None, 3)),
            "label": tfds.features.ClassLabel(names=SIGNS),
        }
        return tfds.core.DatasetInfo(
            builder=self,
            description=__doc__,
            homepage="https://benchmark.ini.rub.de",
            features=tfds.features.FeaturesDict(features),
            supervised_keys=("image", "label"),
            disable_shuffling=True,  # partitions depend on the order
        )

    def _split_generators(self, dl_manager):
        path, images, truth = archives.fetch(self.archives, dl_manager)
        return {
            "train": self._generate_examples(train(path, self.builder_config.name)),
            "test": self._generate_examples(test(images, truth)),
        }

    def _generate_examples(self, examples):
        return examples


def train(path: pathlib.Path, config: str) -> archives.Examples:
    """Yields the training images class by class; a folder's name is its label."""
    inside = TRAIN[config].inside
    with archives.open_archive(path, inside) as files:
        matches = files.matching(rf"{inside}/(\d+)/[^/.][^/]*\.ppm")
        if not matches:
            raise UserError(f"{files.where}: no images {inside}/CLASS/*.ppm in it.")
        for m in matches:  # in the order of class and file name
            yield _example(files, m[0], m[1])


def test(images: pathlib.Path, truth: pathlib.Path) -> archives.Examples:
    """Yields the test images in the order of their annotations in GT-final_test.csv."""
    with archives.open_archive(images, TEST[0].inside) as files:
        label = {f"{TEST[0].inside}/{name}": c for name, c in annotations(truth)}
        names = {name for name in files.names if name.endswith(".ppm")}
        if wrong := sorted(names ^ {*label}):
            raise UserError(
                f"{files.where}: {len(wrong)} test images lack their line in {TRUTH} "
                f"or the other way round; the first is {wrong[0]}. Download both again."
            )
        for name in label:
            yield _example(files, name, label[name])


def annotations(path: pathlib.Path) -> list[tuple[str, str]]:
    """Returns file name and class of each test image, as GT-final_test.csv has them."""
    with archives.open_archive(path, TRUTH) as files:
        text = files.read(TRUTH).decode()
        rows = csv.DictReader(io.StringIO(text), delimiter=";")
        try:
            return [(row["Filename"], row["ClassId"]) for row in rows]
        except KeyError as error:
            names = ", ".join(rows.fieldnames or ())
            raise UserError(
                f"{files.where}: {TRUTH} has no column {error}, only "
                f"{names}. It needs Filename and ClassId, joined "
                "by ; (the file of the online test has no classes)."
            ) from error


def _example(files, name, label):
    if not label.isdecimal() or int(label) >= len(SIGNS):
        raise UserError(
            f"{files.where}, image {name}: its class is {label}, but classes go from 0 "
            f"to {len(SIGNS) - 1}. Download it again."
        )
    return name, {"image": archives.check_rgb(files, name), "label": int(label)}

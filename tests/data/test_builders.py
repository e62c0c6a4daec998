"""Examples of Tiny ImageNet and GTSRB from small archives of the official structure."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image
from support import archives_toy as toy
from support.refusal import refused

from jaxproto.data.readers.builders import archives, gtsrb, tiny_imagenet

ROOT = "tiny-imagenet-200"
VAL = f"{ROOT}/val/val_annotations.txt"


def labels(examples):
    return [example["label"] for _, example in examples]


def pixels(content):
    """What a reader sees that does not convert, as TFDS's does not."""
    return np.asarray(Image.open(io.BytesIO(content)))


def unpacked(path):
    """The folder that a zip archive is unpacked to."""
    folder = path.parent / "unpacked"
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
    return folder


# ------------------------------------------------------------------ tiny imagenet


def test_tiny_imagenet_numbers_classes_in_the_order_of_their_wordnet_ids(tmp_path):
    path = toy.save_tiny_imagenet(tmp_path)
    assert tiny_imagenet.names(path) == ["n01 goldfish", "n02 wall", "n03"]
    assert labels(tiny_imagenet.train(path)) == [0, 0, 1, 1, 2, 2]
    keys = [key for key, _ in tiny_imagenet.train(path)]
    assert keys[:2] == [f"{ROOT}/train/n01/images/n01_{i}.JPEG" for i in range(2)]


def test_validation_classes_are_those_of_the_annotations(tmp_path):
    """In one folder, they would all be of class 0."""
    path = toy.save_tiny_imagenet(tmp_path)
    found = [(key, example["label"]) for key, example in tiny_imagenet.validation(path)]
    name = f"{ROOT}/val/images/val_{{}}.JPEG"  # annotated n02, n01, n03
    assert found == [(name.format(i), c) for c, i in enumerate((1, 0, 2))]


def test_grey_images_become_rgb_and_colour_images_keep_their_bytes(tmp_path):
    path = toy.save_tiny_imagenet(tmp_path)
    colour, grey = [example["image"] for _, example in tiny_imagenet.train(path)][:2]
    assert colour == toy.encoded(toy.COLOUR, "JPEG")
    want = pixels(toy.encoded(toy.GREY, "JPEG"))
    assert (pixels(grey) == want[..., None]).all() and pixels(grey).shape[2] == 3


def test_an_unpacked_archive_gives_the_same_examples(tmp_path):
    path = toy.save_tiny_imagenet(tmp_path)
    for part in (tiny_imagenet.train, tiny_imagenet.validation):
        assert list(part(unpacked(path))) == list(part(path))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({f"{ROOT}/wnids.txt": None}, f"{ROOT}/wnids.txt is missing. Download it"),
        ({f"{ROOT}/wnids.txt": "n01\nn02"}, "both; the first is n03. Download it"),
        ({f"{ROOT}/wnids.txt": "n01 n02 n03 n04"}, "4 classes are in wnids.txt or in"),
        (
            {f"{ROOT}/train/n02/images/n02_0.JPEG": b"no image"},
            "image tiny-imagenet-200/train/n02/images/n02_0.JPEG, cannot be read (Un",
        ),
        (
            {
                f"{ROOT}/train/n02/images/n02_0.JPEG": toy.encoded(toy.COLOUR, "JPEG")[
                    :-900
                ]
            },
            "n02_0.JPEG, cannot be read (OSError: image file is truncated",
        ),
        (
            {f"{ROOT}/train/n02/images/n02_0.JPEG": toy.encoded(toy.GREY[:9], "JPEG")},
            "has size (64, 9), but all images of this set have size (64, 64)",
        ),
    ],
)
def test_what_is_wrong_in_the_training_part_is_named(tmp_path, changed, message):
    path = toy.save_tiny_imagenet(tmp_path, changed)
    with refused(message) as caught:
        list(tiny_imagenet.train(path))
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({VAL: None}, f"{VAL} is missing. Download it again."),
        ({VAL: "val_0.JPEG\tn01\t0\n"}, "2 validation images lack their annotation or"),
        (
            {f"{ROOT}/val/images/val_2.JPEG": None},
            f"or the other way round; the first is {ROOT}/val/images/val_2.JPEG.",
        ),
        (
            {VAL: "".join(f"val_{i}.JPEG\tn0{i + 2}\t0\n" for i in range(3))},
            "val_annotations.txt has class n04, which is not in wnids.txt.",
        ),
    ],
)
def test_what_is_wrong_in_the_validation_part_is_named(tmp_path, changed, message):
    path = toy.save_tiny_imagenet(tmp_path, changed)
    with refused(message) as caught:
        list(tiny_imagenet.validation(path))
    assert str(caught.value).startswith(str(path))


# ------------------------------------------------------------------ gtsrb


@pytest.mark.parametrize(
    ("config", "want"),
    [("torchvision", [0, 0, 1, 1, 42, 42]), ("official", [0, 0, 1, 1, 2, 2, 42, 42])],
)
def test_gtsrb_folders_are_the_labels(tmp_path, config, want):
    toy.save_gtsrb(tmp_path)
    path = tmp_path / gtsrb.TRAIN[config].name
    assert labels(gtsrb.train(path, config)) == want
    assert list(gtsrb.train(unpacked(path), config)) == list(gtsrb.train(path, config))


def test_gtsrb_images_keep_their_pixels_and_sizes(tmp_path):
    toy.save_gtsrb(tmp_path)
    path = tmp_path / "GTSRB-Training_fixed.zip"
    first, second = [
        example["image"] for _, example in gtsrb.train(path, "torchvision")
    ][:2]
    assert (pixels(first) == toy.COLOUR[:15, :16]).all()
    assert (pixels(second) == toy.COLOUR[:20]).all()


def test_gtsrb_test_labels_come_from_the_second_archive(tmp_path):
    toy.save_gtsrb(tmp_path)
    images, truth = (tmp_path / archive.name for archive in gtsrb.TEST)
    found = list(gtsrb.test(images, truth))
    assert labels(found) == [42, 0]
    assert [pixels(example["image"]).shape for _, example in found] == [
        (30, 64, 3),
        (31, 64, 3),
    ]


def test_there_are_43_signs_and_both_configurations_have_the_papers_sizes():
    """docs/decisions.md#gtsrb: 39,270 images match the papers' costs, 51,839 do not."""
    assert len(set(gtsrb.SIGNS)) == 43
    assert gtsrb.SIZES["torchvision"] + 12_630 == 39_270
    assert gtsrb.SIZES["official"] + 12_630 == 51_839


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            toy.gtsrb_train_files(labels=(0, 43)),
            "its class is 00043, but classes go fr",
        ),
        ({"GTSRB/Training/a.txt": ""}, "no images GTSRB/Training/CLASS/*.ppm in it."),
        ({"Other/a.txt": ""}, "there is no GTSRB/Training in it. It is another arch"),
    ],
)
def test_a_strange_gtsrb_training_archive_is_refused(tmp_path, files, message):
    path = toy.save(tmp_path / "a.zip", files)
    with refused(message) as caught:
        list(gtsrb.train(path, "torchvision"))
    assert str(caught.value).startswith(str(path))


def test_gtsrb_test_images_and_annotations_must_fit(tmp_path):
    images, truth = toy.gtsrb_test_files()
    one = toy.save(tmp_path / "images.zip", images)
    more = toy.save(tmp_path / "truth.zip", toy.gtsrb_test_files((1, 2, 3))[1])
    with refused("1 test images lack their line in GT-final_test.csv or the other way"):
        list(gtsrb.test(one, more))
    (text,) = truth.values()
    blind = {"GT-final_test.csv": text.replace("ClassId", "Class")}
    with refused("has no column 'ClassId', only Filename, Width, Height"):
        gtsrb.annotations(toy.save(tmp_path / "blind.zip", blind))


# ------------------------------------------------------------------ archives


@pytest.mark.parametrize("keep", [0.5, 0.0])
def test_a_truncated_archive_is_named(tmp_path, keep):
    path = toy.save_tiny_imagenet(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(keep * len(content))])
    with refused(f"{path} cannot be read (BadZipFile: File is not a zip file). It is "):
        list(tiny_imagenet.train(path))


def test_a_flipped_bit_in_an_archive_is_found_by_its_checksum(tmp_path):
    path, name = tmp_path / "a.zip", f"{ROOT}/wnids.txt"
    with zipfile.ZipFile(path, "w") as archive:  # stored, not compressed
        archive.writestr(name, "n01\nn02\nn03")
    path.write_bytes(path.read_bytes().replace(b"n02", b"n04"))
    with refused(f"{path}, file {name}, cannot be read (BadZipFile: Bad CRC-32"):
        tiny_imagenet.names(path)


class Downloads:
    """As TFDS's download manager."""

    def __init__(self, folder=None, contents=None):
        self.folder, self.contents, self.asked = folder, contents or {}, {}

    @property
    def manual_dir(self):
        if self.folder is None:
            raise AssertionError("Manual directory not enabled.")
        return self.folder

    def download(self, urls):
        self.asked = urls
        return {name: self.contents[name] for name in urls}


def test_archives_in_the_manual_directory_are_not_downloaded(tmp_path):
    toy.save_gtsrb(tmp_path)
    wanted = (gtsrb.TRAIN["official"], *gtsrb.TEST)
    downloads = Downloads(tmp_path)
    assert archives.fetch(wanted, downloads) == [tmp_path / a.name for a in wanted]
    assert downloads.asked == {}


def test_unpacked_archives_are_found_by_what_they_hold(tmp_path):
    toy.save_gtsrb(tmp_path)
    folder = unpacked(tmp_path / "GTSRB_Final_Test_Images.zip")
    assert archives.fetch(gtsrb.TEST[:1], Downloads(folder)) == [folder]


def test_a_damaged_download_is_named_and_deleted(tmp_path):
    (tmp_path / "got").write_bytes(b"half")
    archive = tiny_imagenet.ARCHIVE
    with refused(f"download from {archive.url} has md5 ") as caught:
        archives.fetch([archive], Downloads(None, {archive.name: tmp_path / "got"}))
    assert "It has been deleted; run the same command again" in str(caught.value)
    assert not (tmp_path / "got").exists()


def test_a_whole_download_is_used(tmp_path):
    (tmp_path / "got").write_bytes(b"")
    empty = archives.Archive(
        "a.zip", "http://a", "d41d8cd98f00b204e9800998ecf8427e", "a"
    )
    downloads = Downloads(None, {"a.zip": tmp_path / "got"})
    assert archives.fetch([empty], downloads) == [tmp_path / "got"]
    assert downloads.asked == {"a.zip": "http://a"}

"""Examples of Tiny ImageNet and GTSRB from small archives of the official structure."""

import io
import shutil
import tempfile
import zipfile
from pathlib import Path

import numpy as np
from PIL import Image
from support import archives_toy as toy
from support.every import every
from support.refusal import refused

from jaxproto.data.tfds_builders import gtsrb, tiny_imagenet

ROOT = "tiny-imagenet-200"
WNIDS = f"{ROOT}/wnids.txt"
VAL = f"{ROOT}/val/val_annotations.txt"
IMAGE = f"{ROOT}/train/n02/images/n02_0.JPEG"


def labels(examples):
    return [example["label"] for _, example in examples]


def pixels(example):
    """Pixels as a reader sees them that does not convert, as TFDS's does not."""
    return np.asarray(Image.open(io.BytesIO(example["image"])))


def unpacked(path):
    folder = path.parent / "unpacked"
    shutil.unpack_archive(path, folder)
    return folder


def test_tiny_imagenet_numbers_classes_in_the_order_of_their_wordnet_ids(tmp_path):
    """Validation labels come from the annotations: by folder, all would be 0."""
    path = toy.save_tiny_imagenet(tmp_path)
    assert tiny_imagenet.names(path) == ["n01 goldfish", "n02 wall", "n03"]
    train = [*tiny_imagenet.train(path)]
    assert labels(train) == [0, 0, 1, 1, 2, 2]
    keys = [f"{ROOT}/train/n01/images/n01_{i}.JPEG" for i in range(2)]
    assert [key for key, _ in train[:2]] == keys
    validation = [*tiny_imagenet.validation(path)]
    name = f"{ROOT}/val/images/val_{{}}.JPEG"  # annotated n02, n01, n03
    assert [key for key, _ in validation] == [name.format(i) for i in (1, 0, 2)]
    assert labels(validation) == [0, 1, 2]
    folder = unpacked(path)
    assert train == [*tiny_imagenet.train(folder)]
    assert validation == [*tiny_imagenet.validation(folder)]


def test_grey_images_become_rgb_and_colour_images_keep_their_bytes(tmp_path):
    path = toy.save_tiny_imagenet(tmp_path)
    colour, grey = [example for _, example in tiny_imagenet.train(path)][:2]
    assert colour["image"] == toy.encoded(toy.COLOUR, "JPEG")
    want = pixels({"image": toy.encoded(toy.GREY, "JPEG")})
    assert (pixels(grey) == want[..., None]).all() and pixels(grey).shape[2] == 3


COLOUR, SMALL = (toy.encoded(a, "JPEG") for a in (toy.COLOUR, toy.GREY[:9]))
BAD_TRAIN = [
    (WNIDS, None, f"{WNIDS} is missing. Download it"),
    (WNIDS, "n01\nn02", "both; the first is n03. Download it"),
    (WNIDS, "n01 n02 n03 n04", "4 classes are in wnids.txt or in"),
    (IMAGE, b"no image", f"image {IMAGE}, cannot be read (Un"),
    (IMAGE, COLOUR[:-900], "n02_0.JPEG, cannot be read (OSError: image file is trunc"),
    (IMAGE, SMALL, "size (64, 9), but all images of this set have size (64, 64)"),
]
LAST = f"{ROOT}/val/images/val_2.JPEG"
OTHERS = "".join(f"val_{i}.JPEG\tn0{i + 2}\t0\n" for i in range(3))
BAD_VALIDATION = [
    (VAL, None, f"{VAL} is missing. Download it again."),
    (VAL, "val_0.JPEG\tn01\t0\n", "2 validation images lack their annotation or"),
    (LAST, None, f"or the other way round; the first is {LAST}."),
    (VAL, OTHERS, "val_annotations.txt has class n04, which is not in wnids.txt."),
]
BAD = [(tiny_imagenet.train, *case) for case in BAD_TRAIN]
BAD += [(tiny_imagenet.validation, *case) for case in BAD_VALIDATION]


@every(BAD)
def test_a_wrong_tiny_imagenet_is_named(part, name, content, message):
    with tempfile.TemporaryDirectory() as folder:
        path = toy.save_tiny_imagenet(Path(folder), {name: content})
        with refused(message) as caught:
            list(part(path))
        assert str(caught.value).startswith(str(path))


def test_gtsrb_folders_are_the_labels_and_images_keep_their_pixels(tmp_path):
    """docs/decisions.md#gtsrb: 39,270 images match the papers' costs, 51,839 do not."""
    assert gtsrb.SIZES == {"torchvision": 39_270 - 12_630, "official": 51_839 - 12_630}
    assert len(set(gtsrb.SIGNS)) == 43
    toy.save_gtsrb(tmp_path)
    found = [*gtsrb.test(*(tmp_path / archive.name for archive in gtsrb.TEST))]
    assert labels(found) == [42, 0]  # of the second archive
    assert [pixels(e).shape for _, e in found] == [(30, 64, 3), (31, 64, 3)]
    want = {"torchvision": [0, 0, 1, 1, 42, 42], "official": [0, 0, 1, 1, 2, 2, 42, 42]}
    for config, classes in want.items():
        path = tmp_path / gtsrb.TRAIN[config].name
        found = [*gtsrb.train(path, config)]
        assert labels(found) == classes
        assert found == [*gtsrb.train(unpacked(path), config)]
        assert (pixels(found[0][1]) == toy.COLOUR[:15, :16]).all()
        assert (pixels(found[1][1]) == toy.COLOUR[:20]).all()


def test_strange_archives_of_gtsrb_are_refused(tmp_path):
    unknown = toy.gtsrb_train_files(labels=(0, 43))
    for files, message in (
        (unknown, "its class is 00043, but classes go fr"),
        ({"GTSRB/Training/a.txt": ""}, "no images GTSRB/Training/CLASS/*.ppm in it."),
        ({"Other/a.txt": ""}, "there is no GTSRB/Training in it. It is another arch"),
    ):
        with refused(message):
            list(gtsrb.train(toy.save(tmp_path / "a.zip", files), "torchvision"))
    images, truth = toy.gtsrb_test_files()
    one = toy.save(tmp_path / "images.zip", images)
    more = toy.save(tmp_path / "truth.zip", toy.gtsrb_test_files((1, 2, 3))[1])
    with refused("1 test images lack their line in GT-final_test.csv or the other way"):
        list(gtsrb.test(one, more))
    (text,) = truth.values()
    blind = {"GT-final_test.csv": text.replace("ClassId", "Class")}
    with refused("has no column 'ClassId', only Filename, Width, Height"):
        gtsrb.annotations(toy.save(tmp_path / "blind.zip", blind))


def test_a_truncated_or_changed_archive_is_named(tmp_path):
    path = toy.save_tiny_imagenet(tmp_path)
    content = path.read_bytes()
    for left in (content[: len(content) // 2], b""):
        path.write_bytes(left)
        with refused(
            f"{path} cannot be read (BadZipFile: File is not a zip file). It "
        ):
            list(tiny_imagenet.train(path))
    with zipfile.ZipFile(path, "w") as archive:  # stored, not compressed
        archive.writestr(WNIDS, "n01\nn02\nn03")
    path.write_bytes(path.read_bytes().replace(b"n02", b"n04"))
    with refused(f"{path}, file {WNIDS}, cannot be read (BadZipFile: Bad CRC-32"):
        tiny_imagenet.names(path)

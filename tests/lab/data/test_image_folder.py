"""Own image files: what is read, what is counted, and what is refused by name.

Folders without images, classes or a training part, or with images of two sizes:
`support/bad_files.py`.
"""

import io
import json
import os
import re

import numpy as np
from PIL import Image
from rich.console import Console
from support.refusal import refused

from jaxproto import config
from jaxproto.data import registry
from jaxproto.experiment import build
from jaxproto.summary import run_summary

RNG = np.random.default_rng(0)


def pixels(*shape):
    return RNG.integers(0, 256, shape, np.uint8)


def save(file, array):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(file)
    return array


def classes(root, names=("cat", "dog"), each=3, shape=(6, 6, 3)):
    """Saves images and returns them in the order in which they are to be read."""
    files = [root / name / f"{i}.png" for name in names for i in range(each)]
    return [save(file, pixels(*shape)) for file in files]


def load(root, **options):
    return registry.load(f"folder:{root}", **options)


def test_val_is_pooled_into_train_and_test_is_the_official_test_part(tmp_path):
    """Both parts have one numbering, and unseen classes are counted."""
    test = classes(tmp_path / "test", ("ant", "cat"), each=2)
    names = "cat/images", "dog"  # at any depth of a class folder
    val = classes(tmp_path / "val", names, each=1)
    train = classes(tmp_path / "train", each=2)
    (tmp_path / "val/dog/0.png").rename(tmp_path / "val/dog/0.PNG")
    data = load(tmp_path)
    wanted = [*train[:2], val[0], *train[2:], val[1], *test]
    assert np.array_equal(data.x, np.stack(wanted))
    assert data.classes == ("ant", "cat", "dog") and data.train_size == 6
    assert data.y.tolist() == [1, 1, 1, 2, 2, 2, 0, 0, 1, 1]
    unseen = "2 examples of 1 classes that the training part has none of ('ant')"
    assert unseen in data.notes[-1]


def test_grey_alpha_and_palettes_become_colour_where_they_must(tmp_path):
    grey = classes(tmp_path / "a", ("cat",), each=2, shape=(4, 4))
    assert load(tmp_path / "a").x.shape == (2, 4, 4, 1)
    classes(tmp_path / "a", ("dog",), each=1, shape=(4, 4, 3))
    data = load(tmp_path / "a")
    assert np.array_equal(data.x[0], np.repeat(grey[0][..., None], 3, axis=2))
    assert "2 grey images among 3 become colour" in data.notes[0]
    file = tmp_path / "b" / "cat" / "a.png"
    for channels in (2, 4):
        image = pixels(4, 4, channels)
        image[..., -1] = 0  # transparent
        save(file, image)
        assert np.array_equal(load(tmp_path / "b").x[0], image[..., :-1])
    image = Image.fromarray(pixels(4, 4, 3)).quantize(8)
    image.save(file, transparency=bytes([0] * 8))
    assert np.array_equal(load(tmp_path / "b").x[0], np.asarray(image.convert("RGB")))


def test_what_is_no_image_is_counted_and_hidden_folders_are_no_classes(tmp_path):
    """Empty class folders are counted, and stay classes, as does one called train."""
    classes(tmp_path, ("train", "cat"))
    for name in ("cat/notes.txt", "train/._1.png", ".git/a.png", "__MACOSX/a.png"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    data = load(tmp_path)
    assert data.classes == ("cat", "train") and data.y.tolist() == [0, 0, 0, 1, 1, 1]
    left_out = f"folder:{tmp_path}: 2 files that are no images are left out"
    assert data.notes == (left_out,)
    (tmp_path / "bee").mkdir()
    data = load(tmp_path)
    assert data.num_classes == 3 and set(data.y) == {1, 2}
    assert f"folder:{tmp_path}: 1 class folders are empty: bee" in data.notes


def test_copies_in_the_test_part_and_strange_folders_are_named(tmp_path):
    for part in ("train", "test", "extra"):
        classes(tmp_path / part)
    copy = (tmp_path / "train/cat/0.png").read_bytes()
    for name in ("train/cat/9.png", "test/cat/9.png"):
        (tmp_path / name).write_bytes(copy)
    data = load(tmp_path)
    assert len(data.y) == 14
    beside, copies = data.notes
    assert "beside train, these folders are not read: extra" in beside
    assert "2 images are copies of others, such as " in copies
    assert copies.endswith("1 of them are test images of training ones")


def test_damaged_images_and_links_to_nowhere_are_refused_by_name(tmp_path):
    classes(tmp_path)
    bad = [tmp_path / "dog" / f"b{i}.{'jpg' if i % 2 else 'png'}" for i in range(4)]
    for file in bad:
        save(file, pixels(32, 32, 3))
        file.write_bytes(file.read_bytes()[:-300])
    with refused("4 of 10 images cannot be read: ", *bad[:3], "and 1 more"):
        load(tmp_path, pixels=6)
    os.symlink(tmp_path / "nowhere", tmp_path / "cat" / "z.png")
    with refused("1 of 11 images cannot be read:", tmp_path / "cat/z.png"):
        load(tmp_path, pixels=6)


def test_photographs_of_a_turned_camera_are_read_upright(tmp_path):
    upright = pixels(6, 4, 3)
    for orientation, turned in (
        *((1, upright), (2, upright[:, ::-1]), (3, upright[::-1, ::-1])),
        *((4, upright[::-1]), (5, np.swapaxes(upright, 0, 1))),
        *((6, np.rot90(upright)), (8, np.rot90(upright, -1))),
        (7, np.swapaxes(upright[::-1, ::-1], 0, 1)),
    ):
        exif = Image.Exif()
        exif[0x0112] = orientation
        file = tmp_path / "cat" / f"{orientation}.png"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(np.ascontiguousarray(turned)).save(file, exif=exif)
    for image in load(tmp_path).x:
        np.testing.assert_array_equal(image, upright)
    exif[0x0112] = 6
    Image.new("RGB", (6, 4)).save(tmp_path / "cat" / "9.jpg", exif=exif)
    assert load(tmp_path).x.shape == (9, 6, 4, 3)


def test_further_frames_are_counted(tmp_path):
    for i, kind in enumerate(("gif", "webp", "tif", "png")):
        frames = [Image.fromarray(pixels(6, 6)) for _ in range(3)]
        file = tmp_path / "cat" / f"{i}.{kind}"
        file.parent.mkdir(exist_ok=True)
        frames[0].save(file, save_all=True, append_images=frames[1:])
    classes(tmp_path, ("dog",))
    data = load(tmp_path)
    said = "4 images have 12 frames, of which the first of each is read"
    assert data.notes[-1].endswith(said)


def test_reasons_are_words_and_the_same_at_each_start(tmp_path):
    classes(tmp_path)
    (tmp_path / "cat" / "9.png").write_text("<html>Too many requests</html>")
    said = set()
    for _ in range(2):
        with refused("9.png (no image, as it begins with b'<html>Too many") as e:
            load(tmp_path)
        said.add(f"{e.value}")
    assert len(said) == 1 and " at 0x" not in said.pop()


def test_tiny_imagenet_as_downloaded_is_refused_with_the_way_out(tmp_path):
    classes(tmp_path / "train")
    classes(tmp_path / "val", ("images",))
    (tmp_path / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn01443537\n")
    with refused("val_annotations.txt says the classes", "as tfds:tiny_imagenet"):
        load(tmp_path)


def test_a_run_says_what_was_found_and_saves_the_numbers_of_classes(tmp_path):
    classes(tmp_path / "pets", ("dog", "cat"), each=12)
    (tmp_path / "pets" / "cat" / "readme.txt").write_text("x")
    c = config.experiment("local", "digits")
    c.data.update(name=f"folder:{tmp_path}/pets", clients=2, partition="iid", pixels=4)
    c.model.group = "mlp"
    exp, said = build.experiment(c, "cpu"), io.StringIO()
    assert exp.dataset.x.shape == (24, 4, 4, 3)
    run_summary.partition(exp, tmp_path, Console(file=said, width=200))
    assert "1 files that are no images are left out" in said.getvalue()
    assert re.search(r"cat:\d+, dog:\d+", said.getvalue())
    written = json.loads((tmp_path / "classes.json").read_text())
    assert written == {"cat": 0, "dog": 1}


def test_folders_of_domains_are_sources_of_one_training_part(tmp_path):
    """Rows are in the order of class, then domain; a domain may lack a class."""
    sketch = classes(tmp_path / "sketch", each=2)
    photo = classes(tmp_path / "photo", ("cat",), each=1)
    data = registry.load(f"domains:{tmp_path}")
    assert np.array_equal(data.x, np.stack([*photo, *sketch]))
    assert data.y.tolist() == [0, 0, 0, 1, 1] and data.classes == ("cat", "dog")
    assert data.domains == ("photo", "sketch")
    assert data.domain.tolist() == [0, 1, 1, 1, 1] and data.train_size == 5
    assert registry.load(f"domains:{tmp_path}").domains == data.domains  # of the cache
    (tmp_path / "paint").mkdir()
    with refused("paint of", "have no class folders", "or use folder:PATH"):
        registry.load(f"domains:{tmp_path}")

"""Data sets that TFDS prepared, read without TensorFlow."""

import sys
from functools import partial

import jax
import numpy as np
from support.refusal import refused
from support.tfds_toy import GREY, LABELS, prepare

from jaxproto.data import registry, resize
from jaxproto.experiment import build
from jaxproto.papers.data import tfds_reader


def test_a_prepared_tfds_set_is_read_without_tensorflow(tmp_path, monkeypatch):
    prepare(tmp_path, names=("cat", "dog", "ox"))
    data = registry.load("tfds:toy", data_dir=tmp_path)
    assert data.x.shape == (12, 4, 4, 1) and data.x.dtype == np.uint8
    assert (data.x[:6, ..., 0] == GREY).all() and (data.x[6:, ..., 0] == GREY).all()
    assert data.y.tolist() == [*LABELS, *LABELS] and data.y.dtype == np.int32
    assert (data.name, data.num_classes, data.train_size) == ("tfds:toy", 3, 6)
    assert data.classes == ("cat", "dog", "ox") and "tensorflow" not in sys.modules
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    assert tfds_reader.load("toy").train_size == 6
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with refused("reading it needs the package 'tensorflow_datasets'. Install it."):
        tfds_reader.load("toy", tmp_path)


def test_images_of_several_sizes_are_brought_to_one(tmp_path):
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (5 + i, 9 - i, 3), np.uint8) for i in range(6)]
    splits = ("test", "train", "validation")
    prepare(tmp_path, shape=(-1, -1, 3), images=images, splits=splits)
    data = registry.load("tfds:toy", data_dir=tmp_path, pixels=4)
    small = [resize.resize(image, 4) for image in images]
    assert np.array_equal(data.x, np.stack(small * 3)) and data.train_size == 12
    shape = "(None, None, 3) and type uint8, but a network needs one fixed shape"
    with refused(shape, "Set data.pixels to the height and width"):
        registry.load("tfds:toy", data_dir=tmp_path)


def same(one, other):
    return all(
        np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b
        for a, b in zip(one, other, strict=True)
    )


def test_an_array_of_a_prepared_set_is_mapped_and_nothing_is_decoded(
    tmp_path, monkeypatch
):
    folder = prepare(tmp_path, names=("cat", "dog", "ox"))
    monkeypatch.setattr(tfds_reader, "MANY", 12)
    for pixels, flags in ((0, "of the set has"), (2, "of the set and --pixels=2 has")):
        load = partial(registry.load, "tfds:toy", data_dir=tmp_path, pixels=pixels)
        decoded = load()
        assert f"`jaxproto prepare toy` with --data_dir {flags}" in decoded.notes[0]
        decoded = decoded._replace(notes=())
        assert tfds_reader.write_arrays(folder, pixels) == ""
        with monkeypatch.context() as patch:
            patch.setattr(tfds_reader, "_chunks", None)
            mapped = load()
            assert tfds_reader.write_arrays(folder, pixels) == ""  # again
        assert isinstance(mapped.x, np.memmap) and not mapped.x.flags.writeable
        assert same(mapped, decoded) and mapped.train_size == 6
        if jax.default_backend() == "cpu":  # the pool of a run is the map itself
            pool = build.examples(mapped).x
            assert pool.unsafe_buffer_pointer() == mapped.x.ctypes.data
    file = folder / "x.npy"
    for damaged in (file.read_bytes()[:-5], (folder / "x-2.npy").read_bytes()):
        file.write_bytes(damaged)
        with refused(file, "cannot be read", "prepare or copy it again"):
            registry.load("tfds:toy", data_dir=tmp_path)


def test_of_images_of_several_sizes_an_array_needs_the_size(tmp_path):
    images = [np.full((5 + i, 9, 3), i, np.uint8) for i in range(6)]
    folder = prepare(tmp_path, shape=(-1, -1, 3), images=images)
    assert "--pixels=64 writes them" in tfds_reader.write_arrays(folder)
    assert not [*folder.glob("*.npy")]
    assert tfds_reader.write_arrays(folder, 4) == ""
    assert np.load(folder / "x-4.npy").shape == (12, 4, 4, 3)


def test_texts_are_title_and_description(tmp_path):
    texts = [(f"Title {i}", f"naïve text {i}") for i in range(6)]
    prepare(tmp_path, texts=texts, names=("World", "Sports", "Business"))
    data = registry.load("tfds:toy", data_dir=tmp_path)
    assert data.x.tolist() == [f"Title {i} naïve text {i}" for i in range(6)] * 2
    assert data.x.shape == (12,) and data.y.tolist() == [*LABELS] * 2
    assert data.classes == ("World", "Sports", "Business") and data.train_size == 6
    assert tfds_reader.write_arrays(next(tmp_path.glob("toy/*"))) == ""
    assert not [*tmp_path.rglob("*.npy")]
    with refused("data.pixels is 8, but texts have no pixels. Set it to 0."):
        registry.load("tfds:toy", data_dir=tmp_path, pixels=8)


def test_a_configuration_may_be_left_out_where_one_alone_is_there(tmp_path):
    folder = prepare(tmp_path)
    (tmp_path / "other").mkdir()
    (tmp_path / "toy").rename(tmp_path / "other" / "small")
    assert tfds_reader.find_version("other", tmp_path).parent.name == "small"
    (tmp_path / "other" / "large" / folder.name).mkdir(parents=True)
    with refused("There are: other/large, other/small."):
        tfds_reader.find_version("other", tmp_path)


def test_the_newest_version_is_read_and_a_missing_one_answered_by_those_there(tmp_path):
    with refused(f"no prepared data set in {tmp_path}/no, which is not a directory."):
        tfds_reader.load("toy", tmp_path / "no")
    with refused(f"no prepared data set in {tmp_path}. Point data_dir (or TFDS_DATA_D"):
        tfds_reader.load("toy", tmp_path)
    for version in ("2.9.0", "2.10.0"):
        prepare(tmp_path, version)
    assert tfds_reader.find_version("toy", tmp_path).name == "2.10.0"
    assert tfds_reader.find_version("toy:2.9.0", tmp_path).name == "2.9.0"
    with refused("unknown version of toy in"):
        tfds_reader.find_version("toy:3.0.0", tmp_path)
    with refused(f"in {tmp_path} 'toys'. Did you mean 'toy'? There are: toy."):
        tfds_reader.load("toys", tmp_path)


SHARD = [None, 5, -1000]  # bytes that are left
DAMAGE = {"features.json": [1], "dataset_info.json": [None], "*train*": SHARD}


def test_a_damaged_tfds_set_is_refused_with_its_path(tmp_path):
    folder = prepare(tmp_path)
    for name, lengths in DAMAGE.items():
        (file,) = folder.glob(name)
        content = file.read_bytes()
        for length in lengths:
            file.unlink()
            if length is not None:
                file.write_bytes(content[:length])
            with refused(folder, "It is damaged or incomplete: prepare or copy"):
                tfds_reader.load("toy", tmp_path)
            file.write_bytes(content)


UNFIT = [
    ({"classes": 0}, "no pair of an input and a class label among its features im"),
    ({"classes": 2}, "y_train has label 2 in row 2, but labels go from 0 to 1"),
    ({"splits": ["test"]}, "no split 'train'; there are: test. Prepare the training"),
]


def test_a_tfds_set_that_does_not_fit_is_refused_by_name(tmp_path):
    for i, (written, message) in enumerate(UNFIT):
        prepare(tmp_path / str(i), **written)
        with refused(message) as caught:
            registry.load("tfds:toy", data_dir=tmp_path / str(i))
        assert str(caught.value).startswith("tfds:toy: ")


def test_the_prefix_cannot_be_replaced():
    with refused("data set prefix 'tfds'", "cannot be replaced"):
        registry.FILES["tfds"] = len

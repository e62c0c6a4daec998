"""Data sets from npz files, and what is said when they are unfit."""

import numpy as np
import pytest
from support.refusal import refused
from support.tfds_toy import GREY, LABELS

from jaxproto.data import dataset, datasets


def save(path, **arrays):
    np.savez(path, **arrays)
    return f"npz:{path}"


def save_parts(path, **changed):
    parts = {"x_train": GREY, "y_train": LABELS, "x_test": GREY[:2], "y_test": [0, 1]}
    return save(path, **{**parts, **changed})


def test_npz_keeps_uint8_gives_grey_a_channel_and_puts_the_test_part_last(tmp_path):
    data = datasets.load(save_parts(tmp_path / "a.npz", y_train=LABELS[:, None]))
    assert data.x.dtype == np.uint8 and data.x.shape == (8, 4, 4, 1)
    assert (data.x[6:, ..., 0] == GREY[:2]).all() and data.train_size == 6
    assert data.y.tolist() == [*LABELS, 0, 1] and data.y.dtype == np.int32
    assert data.num_classes == 3


def test_npz_floats_become_float32(tmp_path):
    x = np.linspace(0, 1, 12).reshape(6, 2)
    data = datasets.load(save_parts(tmp_path / "a.npz", x_train=x, x_test=x[:2]))
    assert data.x.dtype == np.float32 and data.x.shape == (8, 2)


def test_npz_without_a_test_part_is_all_training(tmp_path):
    data = datasets.load(save(tmp_path / "a.npz", x_train=GREY, y_train=LABELS))
    assert data.train_size == len(data.y) == 6


def test_npz_may_declare_classes_that_have_no_examples(tmp_path):
    data = datasets.load(save_parts(tmp_path / "a.npz", num_classes=5))
    assert data.num_classes == 5 and dataset.empty_classes(data) == [3, 4]


def test_labels_without_gaps_and_declared_ones_keep_their_numbers(tmp_path):
    for extra in ({}, {"num_classes": 9}):
        data = datasets.load(save_parts(tmp_path / "a.npz", **extra))
        assert data.y.tolist() == [*LABELS, 0, 1]
        assert (data.classes, data.notes) == ((), ())


@pytest.mark.parametrize(
    ("train", "test", "classes"),
    [
        ([7, 7, 3, 9, 3, 9], [9, 3], ("3", "7", "9")),
        (
            np.array([1, 2, 3, 1, 2, 3], np.uint8),
            [2**62, 1],
            ("1", "2", "3", str(2**62)),
        ),
        (np.array([2**64 - 1] * 6, np.uint64), [0, 1], ("0", "1", str(2**64 - 1))),
        (["ox", "ant", "ox", "ant", "bee", "bee"], ["bee", "zebra"], None),
        (np.array([b"ox", b"\xc3\xa9"] * 3), ["ox", "ant"], ("ant", "ox", "é")),
    ],
)
def test_other_labels_are_numbered_in_sorted_order(tmp_path, train, test, classes):
    data = datasets.load(save_parts(tmp_path / "a.npz", y_train=train, y_test=test))
    classes = classes or ("ant", "bee", "ox", "zebra")
    assert (data.classes, data.num_classes) == (classes, len(classes))
    labels = [c.decode() if isinstance(c, bytes) else str(c) for c in [*train, *test]]
    assert [classes[c] for c in data.y] == labels and data.y.dtype == np.int32
    assert f"{classes[0]!r}, {classes[1]!r}" in data.notes[0]


def test_test_examples_of_classes_unseen_in_training_are_counted(tmp_path):
    data = datasets.load(save_parts(tmp_path / "a.npz", y_test=[3, 0]))
    assert data.notes[0].endswith(
        "the test part has 1 examples of 1 classes that the training part has none of "
        "('3')"
    )


def test_texts_may_be_of_any_length(tmp_path):
    texts = np.array(["a", "longer", "", "b", "c", "d"])
    data = datasets.load(
        save_parts(tmp_path / "a.npz", x_train=texts, x_test=texts[:2])
    )
    assert data.x.tolist() == [*texts, *texts[:2]]


NAN = np.ones((6, 2))
NAN[4, 1] = np.nan


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"y_train": LABELS[:5]}, "x_train has 6 examples but y_train has 5. Save one"),
        ({"y_test": [0, 1, 1]}, "x_test has 2 examples but y_test has 3. Save one"),
        ({"y_train": LABELS / 2}, "y_train has type float64, but labels are integers"),
        (
            {"y_train": ["a"] * 6},
            "labels are of two kinds (y_train strings, y_test int",
        ),
        (
            {"y_train": ["a", " ", "b", "", "c", "d"], "y_test": ["a", "b"]},
            "y_train has an empty label in row 1 (2 of 6 are empty). Give each",
        ),
        (
            {"y_train": [*"abcabc"], "y_test": [*"ab"], "num_classes": 4},
            "num_classes is 4, but the labels are 3 different strings. Leave num_cl",
        ),
        ({"y_train": np.eye(6)}, "y_train has shape (6, 6). Give one integer per"),
        (
            {"y_test": [0, -1]},
            "y_test has label -1 in row 1, but labels go from 0 to 2",
        ),
        ({"num_classes": 2}, "y_train has label 2 in row 2, but labels go from 0 to 1"),
        ({"num_classes": 0}, "num_classes is 0. Save one integer above 0"),
        (
            {"x_train": NAN, "x_test": NAN[:2]},
            "x_train has a NaN or infinite value (as",
        ),
        (
            {"x_train": NAN, "x_test": NAN[:2]},
            "1 of 6 rows, the first in row 4. Remove",
        ),
        ({"x_train": NAN[:, :1] * 1e300}, "in 6 of 6 rows, the first in row 0. Remove"),
        (
            {"x_test": GREY[:2, :3]},
            "examples of shape (4, 4, 1) and type uint8, but x_t",
        ),
        (
            {"x_test": GREY[:2] / 2},
            "but x_test has examples of shape (4, 4, 1) and type f",
        ),
        ({"x_train": GREY.astype(int)}, "x_train has type int64. Save images as uint8"),
        ({"x_train": np.ones(6)}, "x_train has shape (6,). Give [N, features], grey"),
        (
            {"x_train": np.ones((6, 3, 4, 5))},
            "which looks like channels first. Save np",
        ),
        (
            {"x_test": GREY[:0], "y_test": LABELS[:0]},
            "the test part is empty (x_test has",
        ),
    ],
)
def test_unfit_arrays_are_named_with_both_values(tmp_path, changed, message):
    path = save_parts(tmp_path / "a.npz", **changed)
    with refused(message) as caught:
        datasets.load(path)
    assert str(caught.value).startswith(path)


def test_npz_without_a_needed_key_lists_the_keys_present(tmp_path):
    with refused("x_test missing; the file has x_train, y_test, y_train. Save it with"):
        datasets.load(
            save(tmp_path / "a", x_train=GREY, y_train=[0], y_test=[0]) + ".npz"
        )
    with refused("x_train, y_train, x_test, y_test missing; the file has images."):
        datasets.load(save(tmp_path / "b.npz", images=GREY))


def test_npz_that_does_not_exist_is_named_with_its_full_path(tmp_path):
    with refused(f"no such file. Looked for {tmp_path}/nowhere.npz."):
        datasets.load(f"npz:{tmp_path}/nowhere.npz")


def test_truncated_and_foreign_files_are_refused_as_unreadable(tmp_path):
    save_parts(tmp_path / "a.npz")
    content = (tmp_path / "a.npz").read_bytes()
    flipped = bytearray(content)
    flipped[content.find(GREY.tobytes()) + 9] ^= 255  # one pixel: the checksum fails
    objects = {"x_train": np.array([{}, 1], object), "y_train": [0, 1]}
    np.savez(tmp_path / "objects.npz", **objects)
    np.save(tmp_path / "one.npy", GREY)
    (tmp_path / "half.npz").write_bytes(content[: len(content) // 2])
    (tmp_path / "flipped.npz").write_bytes(flipped)
    (tmp_path / "text.npz").write_text("hello")
    (tmp_path / "empty.npz").write_bytes(b"")
    for name in ["half.npz", "flipped.npz", "text.npz", "empty.npz", "objects.npz"]:
        with refused(f"npz:{tmp_path}/{name}: cannot be read as npz ("):
            datasets.load(f"npz:{tmp_path}/{name}")
    with refused("Save " + str(tmp_path / "one.npy") + " again with np.savez."):
        datasets.load(f"npz:{tmp_path}/one.npy")

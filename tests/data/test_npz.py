"""Data sets from npz files, and what is said when they are unfit."""

import numpy as np
import pytest
from support.refusal import refused
from support.tfds_toy import GREY, LABELS

from jaxproto.data import dataset, domains, registry


def save(path, **arrays):
    np.savez(path, **arrays)
    return f"npz:{path}"


@pytest.fixture
def parts(tmp_path):
    """Saves both parts, some arrays replaced or added; the name of the data set."""
    both = {"x_train": GREY, "y_train": LABELS, "x_test": GREY[:2], "y_test": [0, 1]}
    return lambda **changed: save(tmp_path / "a.npz", **{**both, **changed})


def test_npz_keeps_uint8_gives_grey_a_channel_and_puts_the_test_part_last(parts):
    data = registry.load(parts(y_train=LABELS[:, None]))
    assert data.x.dtype == np.uint8 and data.x.shape == (8, 4, 4, 1)
    assert (data.x[6:, ..., 0] == GREY[:2]).all() and data.train_size == 6
    assert data.y.tolist() == [*LABELS, 0, 1] and data.y.dtype == np.int32
    assert data.num_classes == 3


def test_npz_floats_become_float32_and_texts_may_be_of_any_length(parts):
    x = np.linspace(0, 1, 12).reshape(6, 2)
    data = registry.load(parts(x_train=x, x_test=x[:2]))
    assert data.x.dtype == np.float32 and data.x.shape == (8, 2)
    texts = np.array(["a", "longer", "", "b", "c", "d"])
    data = registry.load(parts(x_train=texts, x_test=texts[:2]))
    assert data.x.tolist() == [*texts, *texts[:2]]


def test_npz_without_a_test_part_is_all_training(tmp_path):
    data = registry.load(save(tmp_path / "a.npz", x_train=GREY, y_train=LABELS))
    assert data.train_size == len(data.y) == 6


def test_labels_without_gaps_and_declared_ones_keep_their_numbers(parts):
    for extra, empty in (({}, []), ({"num_classes": 5}, [3, 4])):
        data = registry.load(parts(**extra))
        assert data.y.tolist() == [*LABELS, 0, 1]
        assert (data.classes, data.notes) == ((), ())
        assert data.num_classes == 3 + len(empty)
        assert dataset.empty_classes(data) == empty


OTHER_LABELS = [
    ([7, 7, 3, 9, 3, 9], [9, 3], ["3", "7", "9"]),
    (np.uint8([1, 2, 3, 1, 2, 3]), [2**62, 1], ["1", "2", "3", str(2**62)]),
    (np.array([2**64 - 1] * 6, np.uint64), [0, 1], ["0", "1", str(2**64 - 1)]),
    ([*"oaoabb"], ["b", "zebra"], ["a", "b", "o", "zebra"]),
    (np.array([b"ox", b"\xc3\xa9"] * 3), ["ox", "ant"], ["ant", "ox", "é"]),
]


@pytest.mark.parametrize(("train", "test", "classes"), OTHER_LABELS)
def test_other_labels_are_numbered_in_sorted_order(parts, train, test, classes):
    data = registry.load(parts(y_train=train, y_test=test))
    assert (data.classes, data.num_classes) == ((*classes,), len(classes))
    labels = [c.decode() if isinstance(c, bytes) else str(c) for c in [*train, *test]]
    assert [classes[c] for c in data.y] == labels and data.y.dtype == np.int32
    assert f"{classes[0]!r}, {classes[1]!r}" in data.notes[0]


def test_test_examples_of_classes_unseen_in_training_are_counted(parts):
    (note,) = registry.load(parts(y_test=[3, 0])).notes
    assert note.endswith(
        "the test part has 1 examples of 1 classes that the training part has none of "
        "('3')"
    )


def test_sources_are_named_by_texts_or_numbers(parts, tmp_path):
    assert registry.load(parts()).domain is None
    train = {"x_train": GREY[:4], "y_train": [0, 1, 0, 1]}
    texts = ["web", "dslr", "web", "amazon"]
    alone = save(tmp_path / "b.npz", **train, domain_train=texts)
    assert registry.load(alone).domain.tolist() == [2, 1, 2, 0]
    numbers = {"domain_train": [7, 7, 900, -1], "domain_test": [900, 7]}
    both = registry.load(parts(**train, **numbers))
    assert both.domain.tolist() == [1, 1, 2, 0, 2, 1]
    two = dataset.make_dataset("toy", (GREY[:2], [0, 1]), (GREY[:2], [0, 1]))
    with refused("domain_train has type int64, but domain_test <U1. Name sources by i"):
        domains.attach_domains(two, [0, 1], ["a", "b"])


NAN = np.ones((6, 2))
NAN[4, 1] = np.nan
WORDS = {"y_train": [*"abcabc"], "y_test": [*"ab"]}
UNFIT = [  # more: `support/bad_files.py`
    ({"y_test": [0, 1, 1]}, "x_test has 2 examples but y_test has 3. Save one"),
    ({**WORDS, "y_train": [*"a b cc"]}, "label in row 1 (2 of 6 are empty). Give each"),
    ({**WORDS, "num_classes": 4}, "num_classes is 4, but the labels are 3 different s"),
    ({"x_train": NAN, "x_test": NAN}, "1 of 6 rows, the first in row 4. Remove"),
    ({"x_test": GREY[:0], "y_test": LABELS[:0]}, "the test part is empty (x_test"),
    ({"domain_train": [1] * 6}, "but domain_test is missing. Save one source for each"),
]


@pytest.mark.parametrize(("changed", "message"), UNFIT)
def test_unfit_arrays_are_named_with_both_values(parts, changed, message):
    path = parts(**changed)
    with refused(message) as caught:
        registry.load(path)
    assert str(caught.value).startswith(path)


def test_foreign_files_and_those_with_a_wrong_bit_are_refused(parts, tmp_path):
    """Truncated ones and those of objects, too: `support/bad_files.py`."""
    parts()
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[content.find(GREY.tobytes()) + 9] ^= 255  # one pixel: the checksum fails
    for found in (content, b""):
        (tmp_path / "a.npz").write_bytes(found)
        with refused(f"npz:{tmp_path}/a.npz: cannot be read as npz ("):
            registry.load(f"npz:{tmp_path}/a.npz")
    np.save(tmp_path / "one.npy", GREY)
    with refused("Save " + str(tmp_path / "one.npy") + " again with np.savez."):
        registry.load(f"npz:{tmp_path}/one.npy")
    with refused("x_train, y_train, x_test, y_test missing; the file has images."):
        registry.load(save(tmp_path / "b.npz", images=GREY))

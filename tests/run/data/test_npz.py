"""Data sets from npz files. Unfit ones: `support/bad_files.py`."""

import numpy as np
import pytest
from support.every import check_every
from support.refusal import refused
from support.tfds_toy import GREY, LABELS

from jaxproto.data import dataset, domains, registry


def save(path, **arrays):
    np.savez(path, **arrays)
    return f"npz:{path}"


@pytest.fixture
def load(tmp_path):
    """Saves both parts, some arrays replaced or added, and loads the data set."""
    both = {"x_train": GREY, "y_train": LABELS, "x_test": GREY[:2], "y_test": [0, 1]}
    path = tmp_path / "a.npz"
    return lambda **changed: registry.load(save(path, **{**both, **changed}))


def test_npz_keeps_uint8_gives_grey_a_channel_and_puts_the_test_part_last(load):
    data = load(y_train=LABELS[:, None])
    assert data.x.dtype == np.uint8 and data.x.shape == (8, 4, 4, 1)
    assert (data.x[6:, ..., 0] == GREY[:2]).all() and data.train_size == 6
    assert data.y.tolist() == [*LABELS, 0, 1] and data.y.dtype == np.int32
    x = np.linspace(0, 1, 12).reshape(6, 2)
    data = load(x_train=x, x_test=x[:2])
    assert data.x.dtype == np.float32 and data.x.shape == (8, 2)
    texts = np.array(["a", "longer", "", "b", "c", "d"])
    data = load(x_train=texts, x_test=texts[:2])
    assert data.x.tolist() == [*texts, *texts[:2]]
    (note,) = load(y_test=[3, 0]).notes
    unseen = "1 examples of 1 classes that the training part has none of ('3')"
    assert note.endswith(unseen)


OTHER_LABELS = [
    ([7, 7, 3, 9, 3, 9], [9, 3], ["3", "7", "9"]),
    (np.uint8([1, 2, 3, 1, 2, 3]), [2**62, 1], ["1", "2", "3", str(2**62)]),
    (np.array([2**64 - 1] * 5 + [0], np.uint64), [0, 1], ["0", "1", str(2**64 - 1)]),
    ([*"oaoabb"], ["b", "zebra"], ["a", "b", "o", "zebra"]),
    (np.array([b"ox", b"\xc3\xa9"] * 3), ["ox", "ant"], ["ant", "ox", "é"]),
]


def test_labels_without_gaps_keep_their_numbers_and_others_are_sorted(load):
    for extra, empty in (({}, []), ({"num_classes": 5}, [3, 4])):
        data = load(**extra)
        assert data.y.tolist() == [*LABELS, 0, 1]
        assert (data.classes, data.notes) == ((), ())
        assert data.num_classes == 3 + len(empty)
        assert dataset.empty_classes(data) == empty

    def check(train, test, classes):
        data = load(y_train=train, y_test=test)
        assert (data.classes, data.num_classes) == ((*classes,), len(classes))
        said = [c.decode() if isinstance(c, bytes) else str(c) for c in [*train, *test]]
        assert [classes[c] for c in data.y] == said and data.y.dtype == np.int32
        assert f"{classes[0]!r}, {classes[1]!r}" in data.notes[0]

    check_every(OTHER_LABELS, check)


def test_a_relative_path_is_in_the_data_folder(load, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    whole = load()
    for folder in (tmp_path, "~"):
        assert len(registry.load("npz:a.npz", data_dir=folder).y) == len(whole.y)


def test_sources_are_named_by_texts_or_numbers(load, tmp_path):
    assert load().domain is None
    train = {"x_train": GREY[:4], "y_train": [0, 1, 0, 1]}
    texts = ["web", "dslr", "web", "amazon"]
    alone = save(tmp_path / "b.npz", **train, domain_train=texts)
    assert registry.load(alone).domain.tolist() == [2, 1, 2, 0]
    numbers = {"domain_train": [7, 7, 900, -1], "domain_test": [900, 7]}
    assert load(**train, **numbers).domain.tolist() == [1, 1, 2, 0, 2, 1]
    two = dataset.make_dataset("toy", (GREY[:2], [0, 1]), (GREY[:2], [0, 1]))
    with refused("domain_train has type int64, but domain_test <U1. Name sources by i"):
        domains.attach_domains(two, [0, 1], ["a", "b"])
    with refused("but domain_test is missing. Save one source for each"):
        load(domain_train=[1] * 6)

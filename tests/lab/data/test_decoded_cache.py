"""Decoded data sets are kept once, whole or not at all."""

import os
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image
from support.refusal import refused
from support.tfds_toy import prepare

from jaxproto.data import dataset, registry
from jaxproto.data.readers import npz
from jaxproto.errors import UserError
from jaxproto.experiment import build
from jaxproto.lab.cli import cache as command
from jaxproto.lab.data import decoded_cache, image_files
from jaxproto.papers.data import tfds_reader

X = np.arange(7 * 2 * 2, dtype=np.uint8).reshape(7, 2, 2, 1)
Y = np.array([0, 1, 2, 0, 1, 2, 1])


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.delenv("JAXPROTO_CACHE", raising=False)
    where = tmp_path / "cache"
    monkeypatch.setattr(decoded_cache.platformdirs, "user_cache_dir", lambda _: where)
    return where / "data"


def read(store, x=X):
    blocks = (x[start : start + 3] for start in range(0, len(x), 3))
    whole = store(x.shape, x.dtype, blocks)
    parts = (whole[:4], Y[:4]), (whole[4:], Y[4:])
    made = dataset.make_dataset("made", *parts, join=lambda parts: whole)
    names = ("a", "b", "c")
    return made._replace(classes=names, notes=("one",), domain=np.arange(7))


def refuse(store):
    raise AssertionError("read again")


def load(read=read, name="made", **what):
    return decoded_cache.load_or_decode(name, read, **{"kind": "made", **what})


PLAIN = read(decoded_cache.store_in_memory)


def same(a, b):
    for one, two in zip(a, b, strict=True):
        arrays = isinstance(one, np.ndarray)
        assert np.array_equal(one, two) if arrays else one == two
    return True


def fails(error):
    def blocks():
        yield X[:3]
        raise error

    return lambda store: store(X.shape, X.dtype, blocks())


def test_a_set_that_is_refused_or_of_texts_is_not_kept(root):
    with refused("unfit"):
        load(fails(UserError("unfit")))
    texts = np.array(["a", "b"], np.dtypes.StringDType())
    made = dataset.make_dataset("made", (texts, [0, 1]))
    assert load(lambda store: made) is made
    assert not [*root.iterdir()]


def test_what_a_killed_writer_leaves_is_not_read_and_swept_later(root, monkeypatch):
    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(shutil, "rmtree", lambda *_, **__: None)
        load(fails(KeyboardInterrupt()))
    (left,) = root.iterdir()
    assert left.name.startswith(decoded_cache.UNFINISHED) and [*left.iterdir()]
    assert same(load(), PLAIN)
    assert left.exists()  # a young one may have a writer
    os.utime(left, (0, 0))
    load(kind="more")
    assert not left.exists() and len([*root.iterdir()]) == 2


def test_a_damaged_entry_is_made_again(root):
    for name in ("x.npy", decoded_cache.ABOUT, "y.npy"):
        load()
        file = next(root.iterdir()) / name
        whole = file.read_bytes()
        for damaged in (whole[:-5], b"", b"[]", None):
            file.unlink()
            if damaged is not None:
                file.write_bytes(damaged)
            assert same(load(), PLAIN) and same(load(refuse), PLAIN)
            assert len([*root.iterdir()]) == 1


def test_of_two_writers_both_have_the_data_and_one_entry_stays(root):
    barrier = threading.Barrier(2)

    def slow(store):
        done = read(store)
        barrier.wait(10)  # both have written all, none has renamed
        return done

    with ThreadPoolExecutor(2) as pool:
        made = [*pool.map(lambda _: load(slow), range(2))]
    assert same(made[0], made[1]) and same(made[0], PLAIN)
    assert same(load(refuse), made[0]) and load(refuse, "other").name == "other"
    assert len([*root.iterdir()]) == 1


def test_on_a_full_disk_none_is_needed(root, monkeypatch):
    full = mock.Mock(side_effect=OSError(28, "No space left on device"))
    monkeypatch.setattr(os, "fsync", full)
    note = load().notes[-1]
    assert note.endswith(f"not be kept decoded in {root}: No space left on device")
    assert not [*root.iterdir()]


def test_what_was_not_used_for_longest_goes_first_and_reading_is_using(root):
    """A mapped set outlives its entry."""
    for i in range(3):
        load(name=f"made{i}", kind=i)
    for used, entry in enumerate(decoded_cache.entries(root)):
        os.utime(entry.path / decoded_cache.ABOUT, (used, used))
    there = decoded_cache.entries(root)
    assert [entry.used for entry in there] == [2, 1, 0]
    size = sum(entry.size for entry in there)
    decoded_cache.prune(root, size - 1)
    assert decoded_cache.entries(root) == there[:-1]
    sets = [load(kind=i) for i in range(3)]
    assert all(time.time() - entry.used < 60 for entry in decoded_cache.entries(root))
    decoded_cache.prune(root, 0)
    assert not [*root.iterdir()]
    assert all(np.array_equal(made.x, X) for made in sets)


def test_the_command_lists_and_clears(root, capsys):
    load()
    command.main("cache", [])
    assert re.search(r"made: 0 MiB, last used \d{4}-\d\d-\d\d", capsys.readouterr().out)
    command.main("cache", ["--clear"])
    assert f"1 removed from {root}" in capsys.readouterr().out and not root.exists()
    with refused("unrecognized arguments: --wipe"):
        command.main("cache", ["--wipe"])


def through_twice(monkeypatch, module, name, load):
    """Loads in memory, into the cache, and from it, where nothing can be decoded."""
    with monkeypatch.context() as off:
        off.setenv("JAXPROTO_CACHE", "off")
        plain = load()
    assert not isinstance(plain.x, np.memmap)
    first = load()
    with monkeypatch.context() as broken:
        broken.setattr(module, name, refuse)
        again = load()
    assert isinstance(again.x, np.memmap) and not again.x.flags.writeable
    assert same(plain, first) and same(first, again)
    return again


def test_a_prepared_set_is_decoded_once_until_it_changes(root, tmp_path, monkeypatch):
    folder = prepare(tmp_path, names=("a", "b", "c"))
    load = partial(registry.load, "tfds:toy", data_dir=tmp_path)
    for size in (0, 2):
        again = partial(load, pixels=size)
        made = through_twice(monkeypatch, tfds_reader, "_read", again)
        assert made.x.shape[1] == (size or 4) and made.classes == ("a", "b", "c")
    os.utime(next(folder.glob("*train*")), (5, 5))
    load()
    assert len(decoded_cache.entries(root)) == 3


def test_a_folder_is_decoded_once_until_it_changes(root, tmp_path, monkeypatch):
    for i, name in enumerate(("cat/0", "cat/1", "dog/0", "dog/1")):
        file = tmp_path / "pets" / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4), (10 + i, 0, 0)).save(file)
    load = partial(registry.load, f"folder:{tmp_path}/pets")
    made = through_twice(monkeypatch, image_files, "decode", load)
    assert made.classes == ("cat", "dog")
    Image.new("RGB", (4, 4)).save(file)
    assert (load().x[3] == 0).all()


def test_a_folder_read_in_both_ways_has_the_labels_of_each(root, tmp_path):
    for name in ("0/0", "0/1", "1/1"):
        (tmp_path / "set" / name).mkdir(parents=True)
        file = tmp_path / "set" / name / "a.png"
        Image.new("RGB", (4, 4), (*map(int, name.split("/")), 0)).save(file)
    for prefix, labels in (("folder", [0, 0, 1]), ("domains", [0, 1, 1])):
        assert registry.load(f"{prefix}:{tmp_path}/set").y.tolist() == labels


def test_a_large_npz_file_is_kept_and_a_small_one_is_not(root, tmp_path, monkeypatch):
    arrays = {"x_train": X[:4], "y_train": ["a", "c", "b", "b"], "x_test": X[4:]}
    domains = {"domain_train": [0, 1, 1, 1], "domain_test": [2, 0, 1]}
    np.savez(tmp_path / "a.npz", y_test=["a", "b", "c"], **arrays, **domains)
    name = f"npz:{tmp_path}/a.npz"
    assert np.array_equal(registry.load(name).x, X) and not root.exists()
    monkeypatch.setattr(npz, "LARGE", 10)
    made = through_twice(monkeypatch, npz, "_load", lambda: registry.load(name))
    assert made.y.tolist() == [0, 2, 1, 1, 0, 1, 2] and made.classes == ("a", "b", "c")
    assert made.domain.tolist() == [0, 1, 1, 1, 2, 0, 1]


def test_the_pool_of_a_cpu_is_the_map_itself(root):
    made = load()
    examples = build.examples(made)
    assert examples.x.dtype == jnp.uint8 and examples.shape == X.shape[1:]
    assert np.array_equal(examples.x, X.reshape(len(X), -1))
    if jax.default_backend() == "cpu":
        assert examples.x.unsafe_buffer_pointer() == made.x.ctypes.data

"""Files of a run are there whole or not at all, and only what is missing is written."""

import os

import pytest

from jaxproto import config
from jaxproto.experiment import build
from jaxproto.io import atomic
from jaxproto.summary import run_summary


def test_a_write_that_does_not_end_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "indices.csv"
    atomic.write(path, b"old")

    def killed(_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", killed)
        with pytest.raises(KeyboardInterrupt):
            atomic.write(path, b"new and longer")
    assert path.read_bytes() == b"old"
    atomic.write(path, b"new")
    assert path.read_bytes() == b"new" and [*tmp_path.iterdir()] == [path]


def test_a_private_write_that_does_not_end_leaves_nothing(tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(atomic.Unwritable, match="No space"):
            atomic.write(tmp_path / "a", b"new", private=True)
    assert not [*tmp_path.iterdir()]
    atomic.write(tmp_path / "a", b"new", private=True)
    assert [*tmp_path.iterdir()] == [tmp_path / "a"]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o600


def test_a_file_that_has_the_content_is_left_alone(tmp_path):
    path = tmp_path / "a"
    atomic.write(path, b"same")
    os.utime(path, ns=(1, 1))
    atomic.write(path, b"same")
    assert path.stat().st_mtime_ns == 1


def test_a_start_does_not_touch_the_partition_that_is_there(tmp_path):
    """A kill while it was written again made the run refuse its own folder for good."""
    c = config.experiment("local", "digits")
    c.data.clients = 3
    exp = build.experiment(c, "cpu")
    run_summary.save_partition(exp, tmp_path)
    written = sorted(tmp_path.iterdir())
    assert [p.name for p in written] == ["indices.csv", "partition.csv"]
    for path in written:
        os.utime(path, ns=(1, 1))
    run_summary.save_partition(exp, tmp_path)
    assert [p.stat().st_mtime_ns for p in written] == [1, 1]
    run_summary.check_same(exp, tmp_path)

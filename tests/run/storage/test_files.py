"""Files are there whole or not at all, since one writer makes them all atomically."""

import os
import re

import numpy as np
import pytest
from support import runs
from support.refusal import refused

from jaxproto.io import atomic
from jaxproto.storage import checkpoint

PACKAGE = runs.ROOT / "jaxproto"
ALLOWED = {  # file, call -> why it needs no rename
    ("io/atomic.py", "open"): "the writer itself",
    ("io/atomic.py", "save"): "the writer itself",
    ("data/readers/npz.py", "savez"): "into memory",
    ("lab/data/natural.py", "savez"): "into memory",
    ("papers/data/archives.py", "save"): "into memory",
    ("lab/plots/style.py", "savefig"): "into memory",
    ("lab/saved_runs/export.py", "save"): "into memory",
    ("storage/process_shards.py", "save"): "into memory",
    ("lab/saved_runs/export.py", "savez"): "into memory",
}
WRITES = re.compile(  # calls that make or cut off a file, but for those of checkpoints
    r"\b(?:fd)?(open)\(.{0,60}?[\"'][wx]b?\+?[\"']|(?<!checkpoint)(?<!checkpointer)"
    r"\.(write_text|write_bytes|savefig|savez?|savetxt|imsave)\(",
    re.DOTALL,
)


def writes(text: str) -> set[str]:
    return {"".join(names) for names in WRITES.findall(text)}


def test_only_the_writer_makes_files():
    texts = {p.relative_to(PACKAGE): p.read_text() for p in PACKAGE.rglob("*.py")}
    calls = {(str(p), name) for p, text in texts.items() for name in writes(text)}
    there = {folder.name for folder in PACKAGE.iterdir()}  # optional layers may not be
    assert calls == {pair for pair in ALLOWED if pair[0].partition("/")[0] in there}


def killed(_):
    raise KeyboardInterrupt


def full(_):
    raise OSError(28, "No space left on device")


def test_a_write_that_does_not_end_leaves_the_old_file_or_none(tmp_path, monkeypatch):
    path, private = tmp_path / "indices.csv", tmp_path / "private"
    atomic.write(path, b"old")
    no_room = refused(f"cannot write {path}: No space left on device (3.0 MiB needed")
    for stop, error in ((killed, pytest.raises(KeyboardInterrupt)), (full, no_room)):
        with monkeypatch.context() as patch, error:
            patch.setattr(os, "fsync", stop)
            atomic.write(path, bytes(3 << 20))
        assert path.read_bytes() == b"old"
    with monkeypatch.context() as patch, pytest.raises(atomic.Unwritable, match="No s"):
        patch.setattr(os, "fsync", full)
        atomic.write(private, b"new", private=True)
    assert [*tmp_path.iterdir()] == [path]
    atomic.write(path, b"new")
    assert path.read_bytes() == b"new" and [*tmp_path.iterdir()] == [path]
    atomic.write(private, b"new", private=True)
    assert private.stat().st_mode & 0o777 == 0o600
    os.utime(path, ns=(1, 1))
    atomic.write(path, b"new")  # it has the content already
    assert path.stat().st_mtime_ns == 1


def test_a_checkpoint_larger_than_the_disk_is_not_begun(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, 1, {"w": np.zeros(10)})
    usage = checkpoint.shutil.disk_usage(tmp_path)._replace(free=79)
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: usage)
    with refused("2: No space left", "(80 bytes", "79 bytes"):
        checkpoint.save(tmp_path, 2, {"w": np.zeros(10)})
    assert [p.name for p in tmp_path.iterdir()] == ["1"]


def test_what_is_unfinished_is_taken_away_when_the_process_ends(tmp_path):
    with atomic.in_progress(tmp_path / "b"):
        (tmp_path / "b" / "c").mkdir(parents=True)
        atomic.remove_in_progress()
    assert list(tmp_path.iterdir()) == []

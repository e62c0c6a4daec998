"""Every file that the package writes goes through the one writer that is atomic."""

import ast
import io
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from support.refusal import refused

from jaxproto.data import dataset, decoded_cache
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.storage import checkpoint
from jaxproto.summary import progress_lines

PACKAGE = Path(__file__).parents[2] / "jaxproto"
ALLOWED = {  # file, call -> why it needs no rename
    ("io/atomic.py", "open"): "the writer itself",
    (
        "data/decoded_cache.py",
        "open",
    ): "an array in a folder that is renamed when complete",
    ("data/decoded_cache.py", "save"): "into memory",
    ("data/readers/npz.py", "savez"): "into memory",
    ("data/tfds_builders/archives.py", "save"): "into memory",
    ("plots/style.py", "savefig"): "into memory",
    ("saved_runs/export.py", "save"): "into memory",
    ("storage/process_shards.py", "save"): "into memory",
    ("saved_runs/export.py", "savez"): "into memory",
}
NAMES = {"write_text", "write_bytes", "savefig", "save", "savez", "savetxt", "imsave"}
OURS = {"checkpoint", "checkpointer"}  # what saves in its own way, then renames


def writes(file: Path) -> set[str]:
    """Calls in a file that make or cut off another file."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "attr", getattr(node.func, "id", ""))
        modes = [*node.args, *[k.value for k in node.keywords if k.arg == "mode"]]
        texts = {a.value for a in modes if isinstance(a, ast.Constant)}
        if name in ("open", "fdopen") and texts & {"w", "wb", "x", "xb", "w+", "wb+"}:
            found.add("open")
        owner = getattr(getattr(node.func, "value", None), "id", "")
        if name in NAMES and owner not in OURS and isinstance(node.func, ast.Attribute):
            found.add(name)
    return found


def test_only_the_writer_makes_files(tmp_path):
    found = {
        (file.relative_to(PACKAGE).as_posix(), name)
        for file in PACKAGE.rglob("*.py")
        for name in writes(file)
    }
    assert found == set(ALLOWED)
    (tmp_path / "a.py").write_text("p.open('w')\nnp.save(p, x)\nopen(p, mode='wb')\n")
    assert writes(tmp_path / "a.py") == {"open", "save"}  # such a file is found


@pytest.fixture
def full_disk(monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic.os, "fsync", full)


@pytest.mark.usefixtures("full_disk")
def test_a_full_disk_leaves_no_half_file_and_a_cache_is_not_needed(
    tmp_path, monkeypatch
):
    file = tmp_path / "a.json"
    with refused(f"cannot write {file}: No space left on device (3.0 MiB needed"):
        atomic.write(file, bytes(3 << 20))
    assert list(tmp_path.iterdir()) == []
    made = dataset.Dataset("a", np.zeros((4, 2)), np.arange(4), 4, 4)

    def read(begin):
        sink = begin(made.x.shape, made.x.dtype)
        sink.append(made.x)
        return made._replace(x=sink.finish())

    monkeypatch.setattr(decoded_cache, "folder", lambda: tmp_path / "cache")
    (note,) = decoded_cache.load_or_decode("a", {"kind": "toy"}, read).notes
    why = f"not be kept decoded in {tmp_path / 'cache'}: No space left on device"
    assert note.endswith(why)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_checkpoint_larger_than_the_disk_is_not_begun(tmp_path, monkeypatch):
    checkpoint.save(tmp_path, 1, {"w": np.zeros(10)})
    usage = checkpoint.shutil.disk_usage(tmp_path)._replace(free=79)
    monkeypatch.setattr(checkpoint.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=r"2: No space left .* \(80 bytes .* 79 bytes"):
        checkpoint.save(tmp_path, 2, {"w": np.zeros(10)})
    assert [p.name for p in tmp_path.iterdir()] == ["1"]


def test_what_is_unfinished_is_taken_away_when_the_process_ends(tmp_path):
    with atomic.in_progress(tmp_path / "a.new"), atomic.in_progress(tmp_path / "b"):
        (tmp_path / "a.new").write_text("")
        (tmp_path / "b" / "c").mkdir(parents=True)
        atomic.remove_in_progress()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("terminal", [True, False])
def test_what_takes_time_says_what_it_is(terminal, monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    console = Console(file=io.StringIO(), force_terminal=terminal, width=80)
    with progress_lines.progress_line(console, "compiling", "programs", 12) as done:
        for name in ("train [a]", "update"):
            done(name)
        time.sleep(0.3 * terminal)  # it is drawn again every 80 ms
    text = console.file.getvalue()
    if terminal:
        assert "compiling: 2 of 12 programs (update)" in text
    else:
        assert text == "compiling 12 programs\n"


def test_programs_that_cannot_be_kept_are_said_once():
    console = Console(file=io.StringIO(), width=80)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        with progress_lines.warn_uncached_once(console):
            for name in ("a", "b"):
                error = "OSError: No space left on device"
                text = f"{progress_lines.UNKEPT} for '{name}': {error}"
                warnings.warn(text, stacklevel=1)
    assert console.file.getvalue() == (
        "compiled programs cannot be kept for other runs (No space left on device)\n"
    )

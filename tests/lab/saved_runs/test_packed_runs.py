"""Runs in an archive, read like folders."""

import subprocess
import sys

import pytest
from support import reported
from support.refusal import refused
from support.runs import ROOT

import jaxproto
from jaxproto.lab import compare
from jaxproto.lab.cli import compare as command
from jaxproto.lab.cli import plot
from jaxproto.storage.run_folder import run_folders


@pytest.fixture
def packed(tmp_path):
    """Two runs that `tar` has packed, and the folder that is gone."""
    for seed in (0, 1):
        reported.run(tmp_path / f"mine/run-{seed}", seed=seed)
    tar = ["tar", "cJf", "mine.tar.xz", "mine"]
    subprocess.run(tar, cwd=tmp_path, check=True)
    (tmp_path / "mine").rename(tmp_path / "before")
    return tmp_path / "mine"


def test_a_packed_folder_is_read_like_the_folder(packed, capsys):
    runs = [packed / "run-0", packed / "run-1"]
    assert run_folders(packed) == run_folders(packed / "run-*") == runs
    for path in runs:
        run, before = (
            compare.load(path),
            compare.load(packed.with_name("before") / path.name),
        )
        assert run.path == path
        assert (run.config, run.records) == (before.config, before.records)
        assert str(jaxproto.load(path).partition) == str(
            jaxproto.load(before.path).partition
        )
    texts = []
    for folder in (packed, packed.with_name("before")):
        command.main("compare", [str(folder)])
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1]
    out = packed.with_name("partition.png")
    plot.main("plot", ["partition", str(runs[0]), f"--out={out}"])
    assert out.exists()


@pytest.mark.parametrize(
    ("command", "out"),
    [("compare", "a.csv"), ("plot accuracy", "a.svg"), ("report", "a.html")],
)
def test_a_command_of_its_own_process_reads_a_packed_folder(packed, command, out):
    """No other module has registered the archives then."""
    words = [*command.split(), str(packed), f"--out={packed.with_name(out)}"]
    words = [sys.executable, "-m", "jaxproto", *words]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)


def test_errors_name_the_run_as_the_user_does(packed):
    with refused(f"{packed} holds no config.json: name one of the 2 runs in it"):
        jaxproto.load(packed)
    with refused(f"{packed / 'run-2'} does not exist"):
        jaxproto.load(packed / "run-2")
    with refused(f"{packed / 'run-0'} holds no checkpoint"):
        _ = jaxproto.load(packed / "run-0").server


def test_a_folder_is_read_before_its_archive(packed):
    reported.run(packed / "run-7")
    assert run_folders(packed) == [packed / "run-7"]


def test_a_damaged_archive_is_named(packed):
    archive = packed.with_name("mine.tar.xz")
    for content in (b"", b"PK", archive.read_bytes()[:-200]):
        archive.write_bytes(content)
        with refused(f"{archive} cannot be unpacked"):
            run_folders(packed)

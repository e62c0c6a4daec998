"""Clients in host memory or in files: the numbers of clients on the device."""

import io
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import jaxproto
from jaxproto import config
from jaxproto.errors import UserError
from jaxproto.experiment import cohorts
from jaxproto.storage import checkpoint, manifest, records, row_deltas
from jaxproto.training import hosted_store

ROOT = Path(__file__).parents[2]
QUIET = Console(quiet=True)
HOSTED = ("host", "disk")


def few(name="fedproto", **fields):
    """Ten clients, of which four take part in a round."""
    c = config.experiment(name, "digits")
    c.rounds, c.data.clients, c.model.group = 3, 10, "mlp"
    c.participation.law, c.participation.fraction = "uniform", 0.4
    c.checkpoint_every = c.eval_every = 1
    c.update_from_flattened_dict(fields)
    return c


def told(path):
    """What the records of a run say, but for times."""
    rows = records.read(path / "metrics.jsonl")
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


@pytest.fixture(scope="module")
def device_run(tmp_path_factory):
    """The folder of a run whose clients are on the device, as `auto` chooses."""
    path = tmp_path_factory.mktemp("device")
    jaxproto.run(few(), path, QUIET)
    return path


@pytest.fixture(scope="module")
def on_device(device_run):
    return told(device_run)


@pytest.fixture(scope="module")
def disk_run(tmp_path_factory):
    """The folder of a run whose clients are in files, stopped after round 2."""
    path = tmp_path_factory.mktemp("disk")
    for rounds in (2, 3):
        jaxproto.run(few(rounds=rounds, **{"clients.store": "disk"}), path, QUIET)
    return path


def test_a_run_from_files_goes_on_to_the_numbers_of_the_device(disk_run, on_device):
    assert told(disk_run) == on_device
    assert not (
        disk_run / hosted_store.FOLDER
    ).exists()  # room to work in, gone at the end


@pytest.mark.long
def test_the_numbers_from_host_memory_are_those_of_the_device(tmp_path, on_device):
    jaxproto.run(few(**{"clients.store": "host"}), tmp_path, QUIET)
    assert told(tmp_path) == on_device


@pytest.mark.long
def test_a_damaged_checkpoint_is_passed_over(tmp_path, on_device):
    """Also by what is written after it: nothing is linked to a damaged file."""
    jaxproto.run(few(rounds=2, **{"clients.store": "disk"}), tmp_path, QUIET)
    last = tmp_path / "checkpoints" / "2" / row_deltas.FOLDER
    rows = [p for p in last.rglob("*") if p.is_file()]
    newest = max(rows, key=lambda p: (p.stat().st_ctime_ns, p.stat().st_size))
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 0xFF
    newest.unlink()  # its name in other checkpoints stays whole
    newest.write_bytes(bytes(content))
    jaxproto.run(few(**{"clients.store": "disk"}), tmp_path, QUIET)
    assert told(tmp_path) == on_device


def row_files(path, r):
    """Round and inode of every file of rows in a checkpoint."""
    folders = row_deltas.delta_folders(path / "checkpoints" / str(r))
    files = [(p.name, f) for p in folders for f in p.rglob("*") if f.is_file()]
    return {(name, file.stat().st_ino) for name, file in files}


def test_a_checkpoint_links_to_the_last_but_one_and_shares_nothing_with_the_last(
    tmp_path, on_device
):
    """So that a flipped byte, in all checkpoints of its inode, costs one save."""
    jaxproto.run(few(rounds=3, **{"clients.store": "disk"}), tmp_path, QUIET)
    first, second, third = (row_files(tmp_path, r) for r in (1, 2, 3))
    assert first < third and not second & third and not first & second
    assert {name.partition("-")[0] for name, _ in third} == {"1", "3"}
    (tmp_path / "summary.json").unlink()
    rows = tmp_path / "checkpoints" / "3" / row_deltas.FOLDER
    for stray in ("x-y", "3-5"):  # of other programs
        (rows / stray).mkdir()
    (rows / "1-1").touch()
    victim = max((rows / "1-4").rglob("*"), key=lambda p: p.stat().st_size)
    content = bytearray(victim.read_bytes())
    content[len(content) // 2] ^= 1
    victim.write_bytes(content)
    console = Console(file=io.StringIO(), soft_wrap=True)
    jaxproto.run(few(**{"clients.store": "disk"}), tmp_path, console)
    assert "after round 2" in console.file.getvalue()
    assert told(tmp_path) == on_device


@pytest.mark.parametrize("lost", ["manifest.json", "rows"])
def test_a_checkpoint_that_vanishes_in_training_is_not_linked_to(
    tmp_path, on_device, monkeypatch, lost
):
    """All rows are in memory: they are written anew."""
    save = checkpoint.save

    def damaged(directory, r, *rest):
        if r == 3:
            gone = directory / "1" / lost
            shutil.rmtree(gone) if gone.is_dir() else gone.write_text("{")
        save(directory, r, *rest)

    monkeypatch.setattr(checkpoint, "save", damaged)
    jaxproto.run(few(rounds=3, **{"clients.store": "disk"}), tmp_path, QUIET)
    assert {name.partition("-")[0] for name, _ in row_files(tmp_path, 3)} == {"3"}
    assert told(tmp_path) == on_device


def test_a_disk_without_room_for_the_rows_is_said_with_the_size_of_all(
    tmp_path, monkeypatch
):
    usage = shutil.disk_usage(tmp_path)._replace(free=79)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=r"clients.scratch: No space left .* MiB need"):
        jaxproto.run(few(**{"clients.store": "disk"}), tmp_path, QUIET)
    assert not (tmp_path / hosted_store.FOLDER).exists()


@pytest.mark.long
def test_rows_are_written_anew_before_they_are_twice_as_many(tmp_path):
    c = few(rounds=12, **{"clients.store": "host", "participation.fraction": 0.2})
    jaxproto.run(c, tmp_path, QUIET)
    for r in checkpoint.rounds(tmp_path / "checkpoints"):
        folder = tmp_path / "checkpoints" / str(r)
        count = [
            int(p.name.partition("-")[2]) for p in row_deltas.delta_folders(folder)
        ]
        assert sum(count) <= 2 * 10
        manifest.read(folder, None)  # every checksum is that of its file


def test_checkpoints_of_another_store_are_refused(device_run, tmp_path, monkeypatch):
    """As on a machine with less memory, where `auto` chooses otherwise."""
    shutil.copytree(device_run, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(cohorts, "host_memory_bytes", lambda: 1000.0)
    monkeypatch.setattr(
        "jaxproto.data.host_memory.host_memory_bytes", lambda: float("inf")
    )
    with pytest.raises(UserError, match="was written with"):
        jaxproto.run(few(rounds=4), tmp_path, QUIET)


def test_the_store_follows_the_size_of_all_clients(monkeypatch):
    class Some:
        stateless, sampled = False, True

    monkeypatch.setattr(cohorts, "host_memory_bytes", lambda: 9e9)
    monkeypatch.setattr(cohorts, "device_memory", lambda: 3e9)
    chosen = {
        (platform, size): cohorts.choose_store("auto", platform, [Some], size)
        for platform in ("cpu", "gpu")
        for size in (1e9, 2e9, 5e9)
    }
    assert chosen == {
        ("cpu", 1e9): "device",
        ("cpu", 2e9): "device",
        ("cpu", 5e9): "disk",
        ("gpu", 1e9): "device",
        ("gpu", 2e9): "host",
        ("gpu", 5e9): "disk",
    }


def test_clients_that_all_take_part_are_on_the_device(tmp_path):
    c = few(**{"clients.store": "disk", "participation.law": "all"})
    c.participation.fraction = 1.0
    with pytest.raises(UserError, match="all clients may take part in a round"):
        jaxproto.run(c, tmp_path, QUIET)


@pytest.mark.long
def test_a_sample_of_two_cohorts_is_evaluated_from_the_store(tmp_path):
    for store in ("device", "disk"):
        c = few(rounds=2, **{"clients.store": store, "eval.clients": "5"})
        c.model.group = "mlp,cnn4"
        jaxproto.run(c, tmp_path / store, QUIET)
    assert told(tmp_path / "disk") == told(tmp_path / "device")
    assert told(tmp_path / "disk")[0]["evaluated_clients"] == 5


@pytest.mark.long
def test_two_exchanges_take_rows_too(tmp_path):
    for store in ("device", "host"):
        c = few("refprotofl", rounds=2, **{"clients.store": store})
        jaxproto.run(c, tmp_path / store, QUIET)
    assert told(tmp_path / "host") == told(tmp_path / "device")


def test_a_full_disk_is_told_before_training(tmp_path, monkeypatch):
    def refuse(handle, first, size):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(UserError, match="No space left"):
        jaxproto.run(few(**{"clients.store": "disk"}), tmp_path, QUIET)
    assert not list(tmp_path.rglob("metrics.jsonl"))


@pytest.mark.long
def test_a_killed_run_goes_on_to_the_same_bits(tmp_path, on_device):
    """SIGKILL at any moment, several times."""
    command = [
        *(sys.executable, "main.py", "--config=fedproto:digits"),
        *(f"--workdir={tmp_path / 'run'}", "--config.rounds=3"),
        *("--config.data.clients=10", "--config.model.group=mlp"),
        *("--config.participation.law=uniform", "--config.participation.fraction=0.4"),
        *(
            "--config.checkpoint_every=1",
            "--config.clients.store=disk",
            "--config.eval_every=1",
        ),
    ]
    rng = np.random.default_rng(0)
    for _ in range(6):
        p = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
        time.sleep(4 + 6 * rng.random())
        p.send_signal(signal.SIGKILL)
        p.wait()
    assert subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL).returncode == 0
    assert told(tmp_path / "run") == on_device

"""Clients in host memory or in files: the numbers of clients on the device."""

import os
import shutil
from types import SimpleNamespace

import pytest
from support import attacked, hostile_folders, runs
from support.refusal import refused

from jaxproto.data import host_memory
from jaxproto.errors import UserError
from jaxproto.experiment import cohorts
from jaxproto.storage import checkpoint, manifest, row_deltas
from jaxproto.training import stores

quick_runs = attacked.quick_runs  # a fixture of all tests here


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """Makes configurations of ten clients, of which four take part in a round."""
    file = attacked.data(tmp_path_factory.mktemp("data") / "toy.npz")
    ten = {"data__clients": 10, "data__min_size": 4, "participation__law": "uniform"}
    ten["participation__fraction"] = 0.4

    def make(store="disk", method="fedproto", **fields):
        return attacked.small(method, file, clients__store=store, **ten | fields)

    return make


@pytest.fixture(scope="module")
def device_run(few, tmp_path_factory):
    """The folder of a run whose clients are on the device, as `auto` chooses."""
    path = tmp_path_factory.mktemp("device")
    attacked.run(few("auto"), path)
    return path


@pytest.fixture(scope="module")
def on_device(device_run):
    return runs.records(device_run)


@pytest.mark.parametrize(
    "store", [pytest.param("host", marks=pytest.mark.long), "disk"]
)
def test_a_run_goes_on_to_the_numbers_of_the_device(
    few, tmp_path, on_device, store, monkeypatch
):
    monkeypatch.chdir(tmp_path.parent)
    for rounds in (2, 3):
        attacked.run(few(store, rounds=rounds), tmp_path.name)  # a relative path
    assert runs.records(tmp_path) == on_device
    scratch = tmp_path / stores.FOLDER
    assert not scratch.exists()  # room to work in, gone at the end


@pytest.mark.long
def test_two_exchanges_of_two_cohorts_of_which_one_client_is_evaluated(few, tmp_path):
    two = {"model__group": "mlp,amazon_mlp", "eval__clients": "1", "rounds": 2}
    for store in ("device", "host"):
        attacked.run(few(store, "refprotofl", **two), tmp_path / store)
    rows = runs.records(tmp_path / "host")
    assert rows == runs.records(tmp_path / "device")
    assert rows[0]["evaluated_clients"] == 1


def row_files(path, r):
    folders = row_deltas.delta_folders(path / "checkpoints" / str(r))
    files = [(p.name, f) for p in folders for f in p.rglob("*") if f.is_file()]
    return {(name, file.stat().st_ino) for name, file in files}


def flip(file):
    """A bit of a file, in all checkpoints that it is linked to."""
    file.write_bytes(hostile_folders.flip(file.read_bytes(), 4 * file.stat().st_size))


def test_a_checkpoint_links_to_the_last_but_one_and_shares_nothing_with_the_last(
    few, tmp_path, on_device
):
    """So that a flipped byte, in all checkpoints of its inode, costs one save."""
    attacked.run(few(), tmp_path)
    first, second, third = (row_files(tmp_path, r) for r in (1, 2, 3))
    assert first < third and not second & third and not first & second
    assert {name.partition("-")[0] for name, _ in third} == {"1", "3"}
    (tmp_path / "summary.json").unlink()
    rows = tmp_path / "checkpoints" / "3" / row_deltas.FOLDER
    for stray in ("x-y", "3-5"):  # of other programs
        (rows / stray).mkdir()
    (rows / "1-1").touch()
    flip(max((rows / "1-4").rglob("*"), key=lambda p: p.stat().st_size))
    assert "after round 2" in attacked.run(few(), tmp_path)
    assert runs.records(tmp_path) == on_device


@pytest.mark.long
def test_nothing_is_linked_to_a_damaged_checkpoint(few, tmp_path, on_device):
    attacked.run(few(rounds=2), tmp_path)
    rows = (tmp_path / "checkpoints" / "2" / row_deltas.FOLDER).rglob("*")
    stats = {p: p.stat() for p in rows if p.is_file()}
    newest = max(stats, key=lambda p: (stats[p].st_ctime_ns, stats[p].st_size))
    content = newest.read_bytes()
    newest.unlink()  # its name in other checkpoints stays whole
    newest.write_bytes(content)
    flip(newest)
    assert "after round 1" in attacked.run(few(), tmp_path)
    assert runs.records(tmp_path) == on_device
    for r in checkpoint.rounds(tmp_path / "checkpoints"):
        manifest.read(tmp_path / "checkpoints" / str(r), {})


@pytest.mark.long
def test_a_checkpoint_that_vanishes_in_training_is_not_linked_to(
    few, tmp_path, on_device, monkeypatch
):
    """All rows are in memory: they are written anew."""
    save = checkpoint.save

    def damaged(directory, r, *rest):
        if r == 3:
            shutil.rmtree(directory / "1" / row_deltas.FOLDER)
        save(directory, r, *rest)

    monkeypatch.setattr(checkpoint, "save", damaged)
    attacked.run(few(), tmp_path)
    assert {name.partition("-")[0] for name, _ in row_files(tmp_path, 3)} == {"3"}
    assert runs.records(tmp_path) == on_device


@pytest.mark.long
def test_rows_are_written_anew_before_they_are_twice_as_many(few, tmp_path):
    attacked.run(few("host", rounds=7), tmp_path)
    for r in checkpoint.rounds(tmp_path / "checkpoints"):
        folder = tmp_path / "checkpoints" / str(r)
        names = [p.name for p in row_deltas.delta_folders(folder)]
        assert sum(int(name.partition("-")[2]) for name in names) <= 2 * 10
        manifest.read(folder, {})  # every checksum is that of its file


def test_another_stores_checkpoints_are_refused(few, device_run, tmp_path, monkeypatch):
    """As on a machine with less memory, where `auto` chooses otherwise."""
    shutil.copytree(device_run, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(cohorts, "host_memory_bytes", lambda: 1000.0)
    monkeypatch.setattr(host_memory, "host_memory_bytes", lambda: float("inf"))
    with refused("was written with"):
        attacked.run(few("auto", rounds=4), tmp_path)


def test_beside_an_accelerator_the_store_follows_the_size_of_all_clients(monkeypatch):
    some = SimpleNamespace(stateless=False, sampled=True)
    monkeypatch.setattr(cohorts, "host_memory_bytes", lambda: 9e9)
    monkeypatch.setattr(cohorts, "device_memory", lambda: 3e9)
    for size, want in ((1e9, "device"), (2e9, "host"), (5e9, "disk")):
        assert cohorts.choose_store("auto", "gpu", [some], size) == want


def test_what_cannot_be_off_the_device_or_has_no_room_is_refused_before_training(
    few, tmp_path, monkeypatch
):
    with refused("all clients of each network may take part in a round"):
        every = {"participation__law": "all", "participation__fraction": 1.0}
        attacked.run(few(**every), tmp_path)
    usage = shutil.disk_usage(tmp_path)._replace(free=79)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda _: usage)
        with pytest.raises(UserError, match=r"clients.scratch: No space left .* MiB n"):
            attacked.run(few(), tmp_path)
    assert not (tmp_path / stores.FOLDER).exists()

    def full(handle, first, size):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with refused("No space left"):
        attacked.run(few(), tmp_path)
    assert not list(tmp_path.rglob("metrics.jsonl"))

"""The folder of a run: its name, its lock, and what a start may touch in it."""

import os
import time
from pathlib import Path

from support.every import check_every
from support.fields import changed
from support.refusal import refused

from jaxproto import config
from jaxproto.errors import UserError
from jaxproto.storage import default_workdir, file_lock, workdir

PLAIN = "runs/protonorm-digits-seed0"


def default(file, **fields):
    made = changed(config.load(file), **fields)
    return str(default_workdir.default_workdir(made, config.unmodified_config(file)))


COSINE = {"optimizer__schedule": "cosine", "rounds": 600}
NAMES = [
    ("protonorm", {"method__upscale": 50.0}, PLAIN),  # as it is
    ("protonorm", {"model__group": "mlp,cnn4"}, f"{PLAIN}-model.group=mlp,cnn4"),
    ("protonorm", {"data__data_dir": "/data"}, PLAIN),
    ("protonorm", {"rounds": 500}, PLAIN),  # goes on with what is there
    ("protonorm", {"rounds": 4}, f"{PLAIN}-rounds=4"),
    ("fedkd", {"rounds": 500}, "runs/fedkd-digits-seed0-rounds=500"),
    ("local", COSINE, "runs/local-digits-seed0-optimizer.schedule=cosine-rounds=600"),
    ("tinyproto:digits,ft", {}, "runs/tinyproto-digits-seed0-method.base=fedtgp"),
]


def test_changes_are_in_the_name():
    def check(file, fields, want):
        assert default(file, **fields) == want

    check_every(NAMES, check)
    many = {f"optimizer__{name}": 0.5 for name in ("momentum", "weight_decay", "decay")}
    odd = {"data__partition": "file:some where/a.csv"}
    digests = [default("protonorm", **f)[len(PLAIN) + 1 :] for f in (many, odd)]
    assert all(len(end) == 10 and end.isalnum() for end in digests)


def test_a_run_that_began_in_the_plain_folder_goes_on_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = config.unmodified_config("protonorm")
    other = changed(config.load("protonorm"), method__upscale=20.0)
    named = default_workdir.default_workdir(other, plain)
    old = default_workdir.default_workdir(plain)
    old.mkdir(parents=True)
    for there, path in ((other, old), (plain, named)):
        workdir.save_config(old, there)
        assert default_workdir.resolve_workdir(other, plain) == path


def other_run(path):
    (path / "exp" / "one").mkdir(parents=True)
    for name in (".lock", "partition.csv"):
        (path / "exp" / "one" / name).touch()


FOREIGN = [  # what is in a folder without a configuration -> what is said
    (lambda path: (path / "partition.csv").touch(), "has partition.csv, but no run"),
    (lambda path: (path / "plots").symlink_to("gone"), "has plots, but no run"),
    (other_run, "has the folder of another run inside: "),
]


def test_files_and_runs_of_others_are_refused_and_left_alone(tmp_path):
    def check(make, said):
        path = tmp_path / str(FOREIGN.index((make, said)))
        path.mkdir()
        make(path)
        before = sorted(path.rglob("*"))
        with refused(f"the work directory {path} {said}"):
            workdir.lock_workdir(path).__enter__()
        assert sorted(path.rglob("*")) == before

    check_every(FOREIGN, check)
    with refused("/ is the root"):
        workdir.lock_workdir(Path("/")).__enter__()


def test_a_refused_start_removes_its_own_files_and_no_others(tmp_path):
    def refuse(path):
        with workdir.lock_workdir(path):
            for name in ("partition.csv", "sub/config.json", "notes.txt.new"):
                (path / name).parent.mkdir(exist_ok=True)
                (path / name).touch()  # the last two are of other processes
            raise UserError("no")

    for path in (tmp_path / "new" / "run", tmp_path, tmp_path):
        with refused("no"):
            refuse(path)
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*"))
    others = ["notes.txt.new", "sub/config.json"]
    assert left == sorted([*others, *(f"new/run/{name}" for name in others)])


def test_who_waits_for_a_lock_says_for_whom_and_goes_on_at_last(tmp_path, monkeypatch):
    with workdir.lock_workdir(tmp_path):
        with refused(f"another process ({os.getpid()} on "):
            workdir.lock_workdir(tmp_path).__enter__()
        monkeypatch.setattr(file_lock, "NOTICE", 0.2)
        monkeypatch.setattr(file_lock, "LIMIT", 0.6)
        said, clock = [], time.monotonic()
        with file_lock.exclusive_lock(tmp_path / ".lock", said.append, "sleeps"):
            assert 0.6 < time.monotonic() - clock < 5
    starts = [line.partition("another process (")[0] for line in said]
    assert starts == ["waiting for ", ""]
    assert all(str(os.getpid()) in line and "sleeps" in line for line in said)

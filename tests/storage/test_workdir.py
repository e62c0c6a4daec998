"""The folder of a run: its name, its lock, and what a start may touch in it."""

import fcntl
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


CODE = {"seed": 3, "method__lam": 2.0}
NAMES = [
    ("protonorm", {}, PLAIN),
    ("protonorm", {"method__upscale": 20.0}, f"{PLAIN}-method.upscale=20"),
    ("protonorm", {"method__upscale": 50.0}, PLAIN),  # as it is
    ("protonorm", {"model__group": "mlp,cnn4"}, f"{PLAIN}-model.group=mlp,cnn4"),
    ("protonorm", {"data__data_dir": "/data"}, PLAIN),
    ("protonorm", {"rounds": 500}, PLAIN),  # goes on with what is there
    ("protonorm", {"rounds": 4}, f"{PLAIN}-rounds=4"),
    ("fedkd", {"rounds": 500}, "runs/fedkd-digits-seed0-rounds=500"),
    ("protonorm:spiral,paper", {}, "runs/protonorm-spiral-seed0-paper"),
    ("protonorm:spiral,code", CODE, "runs/protonorm-spiral-seed3-code-method.lam=2"),
    ("tinyproto:digits,ft", {}, "runs/tinyproto-digits-seed0-method.base=fedtgp"),
]


def test_changes_are_in_the_name():
    def check(file, fields, want):
        assert default(file, **fields) == want

    check_every(NAMES, check)
    # A cell of another kind of file is its own plain one.
    for file in ("comparison:tinyproto_ft,paper", "table"):
        assert default(file) == str(default_workdir.default_workdir(config.load(file)))


def test_long_or_odd_changes_are_a_digest_of_their_own():
    few = {"optimizer__momentum": 0.9, "optimizer__weight_decay": 0.0001}
    many = {**few, "optimizer__clip_norm": 3.0}
    odd = {"data__partition": "file:some where/a.csv"}
    names = [default("protonorm", **fields) for fields in (few, many, odd)]
    ends = [name.removeprefix(f"{PLAIN}-") for name in names]
    assert ends[0] == "optimizer.momentum=0.9-optimizer.weight_decay=0.0001"
    assert all(len(end) == 10 and end.isalnum() for end in ends[1:])
    assert len({*ends}) == 3 and default("protonorm", **many) == names[1]


def test_a_run_that_began_in_the_plain_folder_goes_on_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = config.unmodified_config("protonorm")
    other = changed(config.load("protonorm"), method__upscale=20.0)
    named = default_workdir.default_workdir(other, plain)
    old = default_workdir.default_workdir(plain)
    assert default_workdir.resolve_workdir(other, plain) == named != old
    old.mkdir(parents=True)
    workdir.save_config(old, other)
    assert default_workdir.resolve_workdir(other, plain) == old
    workdir.save_config(old, plain)
    assert default_workdir.resolve_workdir(other, plain) == named
    assert default_workdir.resolve_workdir(plain, plain) == old


def other_run(path):
    (path / "exp" / "one").mkdir(parents=True)
    for name in (".lock", "partition.csv"):
        (path / "exp" / "one" / name).touch()


FOREIGN = [  # what is in a folder without a configuration -> what is said
    (lambda path: (path / "partition.csv").touch(), "has partition.csv, but no run"),
    (lambda path: (path / "metrics.jsonl").mkdir(), "has metrics.jsonl, but no run"),
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


def test_a_start_that_was_killed_before_its_configuration_is_not_foreign(tmp_path):
    for name in (".lock", "partition.csv", "indices.csv", "notes.csv.new"):
        (tmp_path / name).touch()
    with workdir.lock_workdir(tmp_path):
        pass
    assert (tmp_path / "notes.csv.new").exists()  # of the user


def test_a_refused_start_removes_its_own_files_and_no_others(tmp_path):
    def refuse(path):
        with workdir.lock_workdir(path):
            for name in ("partition.csv", "sub/config.json", "notes.txt"):
                (path / name).parent.mkdir(exist_ok=True)
                (path / name).touch()  # the last two are of other processes
            raise UserError("no")

    for path in (tmp_path / "new" / "run", tmp_path):
        with refused("no"):
            refuse(path)
    left = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.*"))
    mine = ["notes.txt", "sub/config.json"]
    assert left == sorted([*mine, *(f"new/run/{name}" for name in mine)])


def test_who_waits_for_a_lock_says_for_whom_and_goes_on_then(tmp_path, monkeypatch):
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
    assert (tmp_path / ".lock").read_bytes() == b""
    with (tmp_path / ".lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_rounds_that_depend_on_their_number_are_not_added_to(tmp_path):
    cosine = config.experiment("local", "spiral")
    cosine.optimizer.schedule = "cosine"
    for c in cosine, config.experiment("fedkd", "digits"):
        rounds = c.rounds
        workdir.save_config(tmp_path, c)
        workdir.check_config(tmp_path, c)
        c.rounds += 1
        with refused(f"rounds: {rounds} there, {rounds + 1} here"):
            workdir.check_config(tmp_path, c)

"""The default folder of a run is named after what differs from the plain one."""

import pytest

from jaxproto import config
from jaxproto.storage import default_workdir, workdir

PLAIN = "runs/protonorm-digits-seed0"


def default(file, **fields):
    made = config.load(file)
    made.update_from_flattened_dict(
        {k.replace("__", "."): v for k, v in fields.items()}
    )
    return str(default_workdir.default_workdir(made, config.unmodified_config(file)))


@pytest.mark.parametrize(
    ("file", "fields", "want"),
    [
        ("protonorm", {}, PLAIN),
        ("protonorm:digits", {}, PLAIN),
        ("protonorm", {"method__upscale": 20.0}, f"{PLAIN}-method.upscale=20"),
        ("protonorm", {"method__upscale": 0.25}, f"{PLAIN}-method.upscale=0.25"),
        ("protonorm", {"method__upscale": 50.0}, PLAIN),  # as it is
        ("protonorm", {"model__group": "mlp,cnn4"}, f"{PLAIN}-model.group=mlp,cnn4"),
        ("protonorm", {"data__data_dir": "/data"}, PLAIN),
        ("protonorm", {"rounds": 500}, PLAIN),  # goes on with what is there
        ("protonorm", {"rounds": 4}, f"{PLAIN}-rounds=4"),
        ("fedkd", {"rounds": 500}, "runs/fedkd-digits-seed0-rounds=500"),
        ("protonorm:spiral,paper", {}, "runs/protonorm-spiral-seed0-paper"),
        ("protonorm:spiral,code", {}, "runs/protonorm-spiral-seed0-code"),
        (
            "protonorm:spiral,code",
            {"seed": 3, "method__lam": 2.0},
            "runs/protonorm-spiral-seed3-code-method.lam=2",
        ),
        (
            "tinyproto:digits,ft",
            {},
            "runs/tinyproto-digits-seed0-method.base=fedtgp",
        ),
    ],
)
def test_changes_are_in_the_name(file, fields, want):
    assert default(file, **fields) == want


def test_long_or_odd_changes_are_a_digest_of_their_own():
    few = {"optimizer__momentum": 0.9, "optimizer__weight_decay": 0.0001}
    many = {**few, "optimizer__clip_norm": 3.0}
    odd = {"data__partition": "file:some where/a.csv"}
    names = [default("protonorm", **fields) for fields in (few, many, odd)]
    ends = [name.removeprefix(f"{PLAIN}-") for name in names]
    assert ends[0] == "optimizer.momentum=0.9-optimizer.weight_decay=0.0001"
    assert all(len(end) == 10 and end.isalnum() for end in ends[1:])
    assert len({*ends}) == 3 and default("protonorm", **many) == names[1]


def test_a_cell_of_another_kind_of_file_is_its_own_plain_one():
    for file in ("comparison:tinyproto_ft,paper", "table"):
        assert default(file) == str(default_workdir.default_workdir(config.load(file)))


def test_a_run_that_began_in_the_plain_folder_goes_on_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = config.unmodified_config("protonorm")
    changed = config.load("protonorm")
    changed.method.upscale = 20.0
    named = default_workdir.default_workdir(changed, plain)
    assert (
        default_workdir.resolve_workdir(changed, plain)
        == named
        != default_workdir.default_workdir(plain)
    )
    old = default_workdir.default_workdir(plain)
    old.mkdir(parents=True)
    workdir.save_config(old, changed)
    assert default_workdir.resolve_workdir(changed, plain) == old
    workdir.save_config(old, plain)
    assert default_workdir.resolve_workdir(changed, plain) == named
    assert default_workdir.resolve_workdir(plain, plain) == old

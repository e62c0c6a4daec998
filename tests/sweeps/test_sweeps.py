"""The cells of a sweep before anything trains: folders, groups, parts."""

import pytest
from support.refusal import refused

from jaxproto import config
from jaxproto.config import floats
from jaxproto.storage import naming, records
from jaxproto.sweeps import axes
from jaxproto.sweeps.plan import Cell, part, plan, short, standing

C = config.experiment("fedproto", "digits")
C.update_from_flattened_dict({"data.clients": 3, "model.group": "mlp", "rounds": 2})


def planned(*texts, c=C, **more):
    return plan(c, axes(c, texts), **more)


def test_cells_have_their_fields_and_names_and_the_folders_of_runs_alone(tmp_path):
    whole = planned("seed=0,1", "method.lam=1.28,2.5")
    first, second, *_ = whole.cells
    assert [c.name for c in (first, second)] == [
        "seed=0, method.lam=1.28",
        "seed=0, method.lam=2.5",
    ]
    assert (second.config.seed, second.config.method.lam) == (0, 2.5)
    assert C.method.lam == 1.28
    assert [str(c.path) for c in (first, second)] == [
        "runs/fedproto-digits-seed0",
        "runs/fedproto-digits-seed0-method.lam=2.5",
    ]
    assert str(whole.folder) == "sweeps/fedproto-digits-seed-lam"
    assert whole.fields() == {"seed": [0, 1], "method.lam": [1.28, 2.5]}
    inside = planned("seed=0,1", outdir=tmp_path)
    assert [c.path for c in inside.cells] == [
        tmp_path / f"fedproto-digits-seed{seed}" for seed in (0, 1)
    ]
    assert inside.folder == tmp_path


def test_a_cell_that_ran_alone_is_recognised(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = config.plain("fedproto:digits")
    whole = planned("method.lam=1.28,2.5", plain=plain)
    alone = C.copy_and_resolve_references()
    alone.method.lam = 2.5
    path = naming.chosen(alone, plain)
    assert "method.lam=2.5" in str(path) and "model.group=mlp" in str(path)
    path.mkdir(parents=True)
    (path / "config.json").write_text(alone.to_json())
    summary = {"status": "finished", "rounds": 2, "rules": {}}
    records.write_json(path / "summary.json", summary)
    assert [standing(cell) for cell in whole.cells] == ["new", "finished"]


@pytest.mark.parametrize(
    ("status", "rounds", "want"),
    [
        ("finished", 2, "finished"),
        ("finished", 1, "new"),  # to be lengthened
        ("diverged", 1, "diverged"),  # it has ended before its last round
        ("diverged", 0, "diverged"),
    ],
)
def test_what_there_is_of_a_cell(tmp_path, status, rounds, want):
    summary = {"status": status, "rounds": rounds, "rules": {}}
    records.write_json(tmp_path / "summary.json", summary)
    assert standing(Cell({}, C, tmp_path)) == want


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        ("seed=0,1", 1),
        ("method.lam=0.5,1", 1),
        ("optimizer.learning_rate=0.1,0.2+seed=3,4", 1),
        ("optimizer.momentum=0.5,0.9", 1),
        ("optimizer.momentum=0,0.9", 2),  # 0 is off by default
        ("local.epochs=1,2", 2),
        ("method.collect=after_training,before_training", 2),
        ("data.alpha=0.5,1", 2),  # who has what
        ("data.seed=1,2", 2),
    ],
)
def test_seeds_and_floats_share_programs_shapes_and_branches_do_not(text, groups):
    whole = planned(text)
    assert len(whole.groups) == groups
    assert [c for g in whole.groups for c in g.cells] == list(whole.cells)
    for group in whole.groups:
        settings = [floats.program_settings(c.config) for c in group.cells]
        assert all(s == settings[0] for s in settings)


def test_values_that_print_alike_have_names_of_their_own():
    whole = planned("method.lam=1,1.0000001")
    assert len({cell.name for cell in whole.cells}) == 2
    assert [short(v) for v in (2.0, 0.1, 1e-7, 3, "x")] == [
        "2",
        "0.1",
        "1e-07",
        "3",
        "x",
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "method.lam=1,-1",
            "the cell method.lam=-1 cannot run, so none of the sweep was started: "
            "method.lam is -1.0; it must be",
        ),
        ("method.lam=1,nan", "the cell method.lam=nan cannot run"),
        ("model.group=mlp,mpl", "the cell model.group=mpl cannot run"),
        ("data.clients=3,1700", "the cell data.clients=1700 cannot run"),
        (
            "rounds=3,4",
            "the cell rounds=4 cannot run, so none of the sweep was started: it has "
            "the folder runs/fedproto-digits-seed0 of rounds=3; leave one of the two",
        ),
    ],
)
def test_one_cell_that_cannot_run_refuses_all(tmp_path, monkeypatch, text, message):
    monkeypatch.chdir(tmp_path)
    with refused(message):
        planned(text)
    assert not list(tmp_path.iterdir())


def test_a_folder_that_holds_another_run_refuses_all(tmp_path):
    other = C.copy_and_resolve_references()
    other.local.epochs = 7
    path = tmp_path / "fedproto-digits-seed1"
    path.mkdir()
    (path / "config.json").write_text(other.to_json())
    with refused("the cell seed=1 cannot run, so none of the sweep was started: "):
        planned("seed=0,1", outdir=tmp_path)


def test_parts_hold_every_cell_once_and_cells_of_a_group_together():
    whole = planned("seed=0,1,2", "local.epochs=1,2")
    parts = [part(whole, k, 2) for k in range(2)]
    assert [len(p.groups) for p in parts] == [1, 1]
    assert [{c.config.local.epochs for c in p.cells} for p in parts] == [{1}, {2}]
    four = [part(whole, k, 4) for k in range(4)]
    assert sorted(c.name for p in four for c in p.cells) == sorted(
        c.name for c in whole.cells
    )
    assert all(p.folder == whole.folder for p in parts)
    assert part(whole, 0, 1) == whole
    more = [part(whole, k, 9) for k in range(9)]
    assert sum(len(p.cells) for p in more) == 6


@pytest.mark.parametrize(
    ("k", "n", "message"),
    [
        (2, 2, "part 2/2 is none: parts of 2 are 0/2 to 1/2."),
        (0, 0, "part 0/0 is none: write K/N, as in 0/4."),
    ],
)
def test_a_part_that_is_none_is_refused(k, n, message):
    with refused(message):
        part(planned("seed=0,1"), k, n)

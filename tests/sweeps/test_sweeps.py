"""The cells of a sweep before anything trains: folders, groups, parts."""

from support.every import check_every
from support.refusal import refused
from support.sweeping import planned, tiny

from jaxproto import config, sweeps
from jaxproto.experiment import traced
from jaxproto.storage import default_workdir, records
from jaxproto.sweeps.plan import Cell, cell_status, format_value, select_part


def test_cells_have_fields_names_of_their_own_and_the_folders_of_runs_alone(tmp_path):
    whole = planned(["seed=0,1", "method.lam=1.28,2.5"])
    first, second, *_ = whole.cells
    assert first.name == "seed=0, method.lam=1.28"
    assert second.name == "seed=0, method.lam=2.5"
    assert (second.config.seed, second.config.method.lam) == (0, 2.5)
    assert first.config.method.lam == tiny().method.lam == 1.28
    assert str(first.path) == "runs/fedproto-digits-seed0"
    assert str(second.path) == "runs/fedproto-digits-seed0-method.lam=2.5"
    assert str(whole.folder) == "sweeps/fedproto-digits-seed-lam"
    assert whole.fields() == {"seed": [0, 1], "method.lam": [1.28, 2.5]}
    inside = planned(["seed=0,1"], tmp_path)
    names = [f"fedproto-digits-seed{seed}" for seed in (0, 1)]
    assert [c.path for c in inside.cells] == [tmp_path / name for name in names]
    assert inside.folder == tmp_path
    whole = planned(["method.lam=1,1.0000001"])
    assert len({cell.name for cell in whole.cells}) == 2
    told = [format_value(v) for v in (2.0, 0.1, 1e-7, 3, "x")]
    assert told == ["2", "0.1", "1e-07", "3", "x"]


def test_what_there_is_of_a_cell_also_of_one_that_ran_alone(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = config.unmodified_config("fedproto:digits")
    whole = planned(["method.lam=1.28,2.5"], plain=plain)
    alone = tiny(method__lam=2.5)
    path = default_workdir.resolve_workdir(alone, plain)
    assert "method.lam=2.5" in str(path) and "model.group=mlp" in str(path)
    path.mkdir(parents=True)
    (path / "config.json").write_text(alone.to_json())
    for status, rounds, want in (
        ("finished", 1, "new"),  # to be lengthened
        ("diverged", 1, "diverged"),  # it has ended before its last round
        ("diverged", 0, "diverged"),
        ("finished", 2, "finished"),
    ):
        summary = {"status": status, "rounds": rounds, "rules": {}}
        records.write_json(path / "summary.json", summary)
        assert cell_status(Cell({}, alone, path)) == want
    assert [cell_status(cell) for cell in whole.cells] == ["new", "finished"]


APART = {  # field -> value, and one of another program
    "optimizer.momentum": (0.9, 0.0),  # 0 is off by default
    "local.epochs": (1, 2),
    "method.collect": ("after_training", "before_training"),
    "data.alpha": (0.5, 1.0),  # who has what
    "data.seed": (1, 2),
}


def test_seeds_and_floats_share_programs_shapes_and_branches_do_not():
    fields = "seed", "method.lam", "optimizer.learning_rate", "optimizer.momentum"
    one = planned({fields: [(0, 0.5, 0.1, 0.5), (1, 1.0, 0.2, 0.9)]})
    assert [g.cells for g in one.groups] == [one.cells]
    first, second = (traced.program_settings(c.config) for c in one.cells)
    assert first == second
    alone = [{k: two[k == other] for k, two in APART.items()} for other in APART]
    rows = [{k: first for k, (first, _) in APART.items()}, *alone]
    six = planned({tuple(APART): [tuple(row.values()) for row in rows]})
    assert [g.cells for g in six.groups] == [(cell,) for cell in six.cells]
    both = planned(["seed=0,1", "local.epochs=1,2"])
    epochs = [[c.config.local.epochs for c in g.cells] for g in both.groups]
    assert epochs == [[1, 1], [2, 2]]


NONE = "cannot run, so none of the sweep was started: "
TWICE = "it has the folder runs/fedproto-digits-seed0 of rounds=3; leave one of the two"
CANNOT = [
    ("method.lam=1,-1", f"method.lam=-1 {NONE}method.lam is -1.0; it must be"),
    ("method.lam=1,nan", "method.lam=nan cannot run"),
    ("model.group=mlp,mpl", "model.group=mpl cannot run"),
    ("data.clients=3,1700", "data.clients=1700 cannot run"),
    ("rounds=3,4", f"rounds=4 {NONE}{TWICE}"),
]


def test_one_cell_that_cannot_run_refuses_all(tmp_path, monkeypatch):
    """Or whose folder holds another run."""
    monkeypatch.chdir(tmp_path)
    c = tiny()

    def check(text, message):
        with refused(f"the cell {message}"):
            sweeps.plan(c, sweeps.parse_axes(c, [text]))
        assert not list(tmp_path.iterdir())

    check_every(CANNOT, check)
    path = tmp_path / "fedproto-digits-seed1"
    path.mkdir()
    (path / "config.json").write_text(tiny(local__epochs=7).to_json())
    with refused(f"the cell seed=1 {NONE}"):
        planned(["seed=0,1"], tmp_path)


def test_parts_hold_every_cell_once_and_cells_of_a_group_together():
    pairs = {("local.batch_size", "method.lam"): [(10, 1.0), (20, 1.0), (20, 2.0)]}
    whole = planned({"seed": [0, 1], **pairs})
    assert [len(group.cells) for group in whole.groups] == [2, 4]
    for k, group in enumerate(whole.groups):
        assert select_part(whole, k, 2).groups == (group,)
    assert [len(select_part(whole, k, 3).cells) for k in range(3)] == [2, 2, 2]
    assert select_part(whole, 0, 1) == whole
    names = sorted(c.name for c in whole.cells)
    for n in (4, 9):
        parts = [select_part(whole, k, n) for k in range(n)]
        assert sorted(c.name for p in parts for c in p.cells) == names
        assert all(p.folder == whole.folder for p in parts)

"""A sweep before anything trains: its axes; folders, groups and parts of its cells."""

from support.every import check_every
from support.refusal import refused
from support.sweeping import planned, tiny

from jaxproto import config, sweeps
from jaxproto.config import files
from jaxproto.storage import default_workdir, records
from jaxproto.sweeps import parse_axes
from jaxproto.sweeps.axes import cell_changes
from jaxproto.sweeps.plan import cell_status, select_part

C = tiny()


def values(*texts):
    """The values of the first axis; of one field without tuples."""
    first = parse_axes(C, texts)[0].values
    return [v[0] for v in first] if all(len(v) == 1 for v in first) else list(first)


TEXTS = [
    ("seed= 3, 4", [3, 4]),
    ("seed=0:3", [0, 1, 2]),
    ("seed=2:0:-1", [2, 1]),
    ("local.epochs=log:1:8:4", [1, 2, 4, 8]),
    ("method.lam=1,2.5,1e-3", [1.0, 2.5, 0.001]),
    ("method.lam=lin:0:0.3:4", [0.0, 0.1, 0.2, 0.3]),
    ("method.lam=lin:0:1234567.5:2", [0.0, 1234567.5]),
    ("data.pool=true,FALSE", [True, False]),
    ("data.seed=follow,3", [-1, 3]),
    ('model.group=digits, "mlp,cnn4_d"', ["digits", "mlp,cnn4_d"]),
    ('data.name="npz:a+b=1.npz",digits', ["npz:a+b=1.npz", "digits"]),
    ("method.lam=1e+3,2", [1000.0, 2.0]),
    ("seed=0:2+method.lam=lin:1:2:2+rounds=5,6", [(0, 1.0, 5), (1, 2.0, 6)]),
    # Inner values of equal factors have six digits:
    ("method.lam=log:1e-3:1e-2:3", [0.001, 0.00316228, 0.01]),
    ("method.lam=log:1e-300:1e300:3", [1e-300, 1.0, 1e300]),
]


def types(found):
    return [[*map(type, v)] if isinstance(v, tuple) else type(v) for v in found]


def test_a_text_stands_for_its_values_in_the_type_of_the_field():
    def check(text, want):
        found = values(text)
        assert found == want and types(found) == types(want)

    check_every(TEXTS, check)


def test_python_gives_values_texts_and_pairs_of_which_the_last_changes_fastest():
    given = {"seed": range(2), "method.lam": "log:1:10:2"}
    given["local.epochs", "method.upscale"] = [(1, 2), [3, 4.5]]
    seed, lam, pair = parse_axes(C, given)
    assert seed.values == ((0,), (1,)) and lam.values == ((1.0,), (10.0,))
    assert pair.fields == ("local.epochs", "method.upscale")
    assert pair.values == ((1, 2.0), (3, 4.5))
    assert [list(map(type, row)) for row in pair.values] == [[int, float]] * 2
    both = [dict(zip(pair.fields, values, strict=True)) for values in pair.values]
    cells = [{"seed": s, **one} for s in (0, 1) for one in both]
    assert cell_changes([seed, pair]) == cells


NO_AXES = [
    ([], "a sweep needs an axis, such as --sweep=seed=0,1,2 or"),
    ("seed=0,1", "the axes 'seed=0,1' are neither a dictionary {field: values} nor"),
    ([3], "the axes [3] are neither a dictionary"),
    (["seed="], "the axis 'seed=' has no values: FIELD=VALUES, such as"),
    ({"seed": []}, "the axis seed has no values, such as"),
    (["seed=0:9:0"], "the values '0:9:0' have a step of 0."),
    (["method.lma=1"], "field of 'config.method': 'lma'. Did you mean 'lam'?"),
    (["method=fedproto"], "method is a group of fields; name one of them."),
    (["method.name=fedproto,fedtgp"], "method.name cannot be an axis, because"),
    (["seed=0,,1"], "seed is '' in the sweep; it must be a whole number."),
    (["seed=lin:0:1:3"], "seed is 0.5 in the sweep; it must be a whole number."),
    ({"seed": [True]}, "seed is True in the sweep; it must be a whole number."),
    ({"local.order": [3]}, "local.order is 3 in the sweep; it must be a text."),
    (["method.lam=0:3"], "method.lam is '0:3' in the sweep; it must be a number."),
    (["data.pool=yes"], "data.pool is 'yes' in the sweep; it must be True or False."),
    (["method.lam=1,1.0"], "the axis method.lam has 1.0 more than once; give it"),
    (["method.lam=log:1:9"], "the values 'log:1:9' are not log:FIRST:LAST:COUNT."),
    (["method.lam=lin:1:inf:3"], "need finite ends and a count above 1."),
    (["method.lam=log:0:1:3"], "'log:0:1:3' are by equal factors: ends above 0."),
    (["seed=1,2+method.lam=3"], "equally many values (seed: 2, method.lam: 1)."),
    (["seed=1", "seed=2"], "two axes of the sweep change seed; give it once."),
    (['model.group="mlp,cnn4'], "a text that holds a comma stands in double quotes"),
    ({"seed": 3}, "the axis seed is 3; it must be a list of values."),
    ({("seed", "rounds"): [(1,)]}, "seed+rounds needs 2 values in each entry."),
]


def test_what_is_no_axis_is_refused():
    def check(given, message):
        with refused(message):
            parse_axes(C, given)

    check_every(NO_AXES, check)


HEAD = "from jaxproto import config\nfrom jaxproto.errors import UserError\n"
HEAD += "def get_config(arg='digits'):\n    return config.experiment('local', arg)\n"
NO_SWEEPS = [
    ("", "c.py defines no get_sweep: give the axes of the sweep, such as --sweep="),
    ("def get_sweep():\n    return 1 / 0", "c.py, line 6: ZeroDivisionError: div"),
    ("def get_sweep():\n    raise UserError('no such thing.')", "no such thing."),
    ("def get_sweep():\n    raise SystemExit(3)", "c.py, line 6: SystemExit: 3"),
]


def test_a_file_has_the_axes_of_its_sweep_or_one_line_of_error(tmp_path):
    def axes(text):
        (tmp_path / "c.py").write_text(HEAD + text)
        return files.sweep_axes(f"{tmp_path / 'c.py'}:spiral")

    def check(text, message):
        with refused(message):
            axes(text)

    check_every(NO_SWEEPS, check)
    assert axes("def get_sweep():\n    return ['seed=0,1']") == ["seed=0,1"]
    found = axes("def get_sweep(arg):\n    return {'seed': [arg]}")
    assert found == {"seed": ["spiral"]}


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


def test_a_cell_that_ran_alone_has_ended(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plain = config.unmodified_config("fedproto:digits")
    whole = planned(["method.lam=1.28,2.5"], plain=plain)
    alone = tiny(method__lam=2.5)
    path = default_workdir.resolve_workdir(alone, plain)
    assert "method.lam=2.5" in str(path) and "model.group=mlp" in str(path)
    path.mkdir(parents=True)
    (path / "config.json").write_text(alone.to_json())
    summary = {"status": "finished", "rounds": 2, "rules": {}}
    records.write_json(path / "summary.json", summary)
    assert [cell_status(cell) for cell in whole.cells] == ["new", "finished"]


def test_seeds_and_floats_share_programs_shapes_and_branches_do_not():
    fields = "seed", "method.lam", "optimizer.learning_rate", "optimizer.momentum"
    one = planned({fields: [(0, 0.5, 0.1, 0.5), (1, 1.0, 0.2, 0.9)]})
    assert [g.cells for g in one.groups] == [one.cells]
    for apart in "optimizer.momentum=0.9,0", "data.alpha=0.5,1", "data.seed=1,2":
        assert len(planned([apart]).groups) == 2
    both = planned(["seed=0,1", "local.epochs=1,2"])
    epochs = [[c.config.local.epochs for c in g.cells] for g in both.groups]
    assert epochs == [[1, 1], [2, 2]]


NONE = "cannot run, so none of the sweep was started: "
TWICE = "it has the folder runs/fedproto-digits-seed0 of rounds=3; leave one of the two"
CANNOT = [
    ("method.lam=1,-1", f"method.lam=-1 {NONE}method.lam is -1.0; it must be"),
    ("method.lam=1,nan", "method.lam=nan cannot run"),
    ("data.clients=3,1700", "data.clients=1700 cannot run"),
    ("rounds=3,4", f"rounds=4 {NONE}{TWICE}"),
]


def test_one_cell_that_cannot_run_refuses_all(tmp_path, monkeypatch):
    """Or whose folder holds another run."""
    monkeypatch.chdir(tmp_path)
    c = tiny()

    def check(text, message):
        with refused(f"the cell {message}"):
            sweeps.plan(c, parse_axes(c, [text]))
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

"""A sweep before anything trains: its axes; folders, groups and parts of its cells."""

from types import SimpleNamespace

from support.every import check_every
from support.refusal import refused
from support.sweeping import planned, tiny

from jaxproto import config
from jaxproto.lab.sweeps import SweepOptions, execute, parse_axes, sweep
from jaxproto.lab.sweeps.plan import plan, select_part
from jaxproto.storage import default_workdir, workdir

C = tiny()


def values(text):
    """The values of an axis; of one field without tuples."""
    (axis,) = parse_axes(C, [text])
    return [v[0] if len(v) == 1 else v for v in axis.values]


TEXTS = [
    ("seed= 3, 4", [3, 4]),
    ("seed=2:0:-1", [2, 1]),
    ("local.epochs=log:1:8:4", [1, 2, 4, 8]),
    ("method.lam=1e+3,2", [1000.0, 2.0]),
    ("method.lam=lin:0:0.3:4", [0.0, 0.1, 0.2, 0.3]),
    ("data.pool=true,FALSE", [True, False]),
    ("data.seed=follow,3", [-1, 3]),
    ('data.name="npz:a+b=1,2.npz",digits', ["npz:a+b=1,2.npz", "digits"]),
    ("seed=0:2+method.lam=lin:1:2:2+rounds=5,6", [(0, 1.0, 5), (1, 2.0, 6)]),
    # Inner values of equal factors have six digits:
    ("method.lam=log:1e-3:1e-2:3", [0.001, 0.00316228, 0.01]),
]


def types(found):
    return [[*map(type, v)] if isinstance(v, tuple) else type(v) for v in found]


def test_a_text_stands_for_its_values_in_the_type_of_the_field():
    def check(text, want):
        found = values(text)
        assert found == want and types(found) == types(want)

    check_every(TEXTS, check)


NO_AXES = [
    ([], "a sweep needs an axis, such as --sweep=seed=0,1,2 or"),
    ("seed=0,1", "the axes 'seed=0,1' are neither a dictionary {field: values} nor"),
    ({"seed": []}, "the axis seed has no values, such as"),
    (["seed=0:9:0"], "the values '0:9:0' have a step of 0."),
    (["seed=0:99999999999999999999"], "seed is '0:99999999999999999999' in the sweep"),
    (["method=fedproto"], "method is a group of fields; name one of them."),
    (["method.name=fedproto,fedtgp"], "method.name cannot be an axis, because"),
    (["seed=lin:0:1:3"], "seed is 0.5 in the sweep; it must be a whole number."),
    ({"seed": [True]}, "seed is True in the sweep; it must be a whole number."),
    ({"local.order": [3]}, "local.order is 3 in the sweep; it must be a text."),
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


def test_devices_are_refused_where_a_cell_trains_on_one(monkeypatch):
    """They share the cells of one program; without the option, one is enough."""
    two = SimpleNamespace(num_devices=2)
    monkeypatch.setattr(execute, "parse_devices", lambda which: two)
    for form in ("one", "threads"):
        with refused("devices is '0,1'", f"cells_at_once={form}", "=all or a number"):
            sweep(C, {"seed": [0, 1]}, how=SweepOptions(form, devices="0,1"))
        assert execute.check_options(SweepOptions(form))[0] == "threads"
    for form in ("auto", "all", "3"):
        found = execute.check_options(SweepOptions(form, devices="0,1"))
        assert found[0] == execute.BATCHED and found[2] is two


def test_cells_have_fields_names_of_their_own_and_the_folders_of_runs_alone():
    whole = planned({"seed": range(2), "method.lam": "1.28,2.5"})
    changes = {"seed": 0, "method.lam": 1.28}, {"seed": 0, "method.lam": 2.5}
    assert [cell.changes for cell in whole.cells[:2]] == [*changes]
    first, second, *_ = whole.cells
    assert second.name == "seed=0, method.lam=2.5"
    assert (second.config.seed, second.config.method.lam) == (0, 2.5)
    assert first.config.method.lam == tiny().method.lam == 1.28
    assert str(first.path) == "runs/fedproto-digits-seed0"
    assert str(second.path) == "runs/fedproto-digits-seed0-method.lam=2.5"
    assert str(whole.folder) == "sweeps/fedproto-digits-seed-lam"
    whole = planned(["method.lam=1,1.0000001"])
    assert len({cell.name for cell in whole.cells}) == 2


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
    ("data.clients=3,1700", "data.clients=1700 cannot run"),
    ("rounds=3,4", f"rounds=4 {NONE}{TWICE}"),
    ("attack.share=0.1,0.9", f"attack.share=0.9 {NONE}all clients that are evaluated"),
]


def test_one_cell_that_cannot_run_refuses_all(tmp_path, monkeypatch):
    """Or whose folder holds another run."""
    monkeypatch.chdir(tmp_path)
    c = tiny(attack__kind="scale")

    def check(text, message):
        with refused(f"the cell {message}"):
            plan(c, parse_axes(c, [text]))
        assert not list(tmp_path.iterdir())

    check_every(CANNOT, check)
    c = tiny(data__clients=40, participation__law="uniform", time__buffer=20)
    c.time.devices = "lognormal"
    check(
        "participation.fraction=0.5,0.475", f"participation.fraction=0.475 {NONE}time"
    )
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
    names = sorted(c.name for c in whole.cells)
    for n in (1, 3, 4, 9):
        parts = [select_part(whole, k, n) for k in range(n)]
        assert sorted(c.name for p in parts for c in p.cells) == names


def test_a_folder_of_a_cell_does_not_depend_on_other_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = ["seed=0"], "out", config.experiment("fedproto", "digits")
    before = planned(*given).cells[0].path
    old = default_workdir.default_workdir(tiny())  # of an earlier version
    old.mkdir(parents=True)
    workdir.save_config(old, tiny())
    assert planned(*given).cells[0].path == before

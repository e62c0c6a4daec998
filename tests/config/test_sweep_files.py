"""The sweeps of the papers in configs/sweeps: found, whole, their tables' settings."""

import re
import tomllib
from pathlib import Path

import pytest
from support.refusal import refused

from jaxproto import cli, config
from jaxproto.compare import names
from jaxproto.compare.cells import PRESETS
from jaxproto.config import files, presets, shipped
from jaxproto.errors import UserError
from jaxproto.methods import METHODS
from jaxproto.sweeps import axes
from jaxproto.sweeps.axes import product
from jaxproto.sweeps.plan import plan

ROOT = Path(__file__).parents[2]
FILES = [name for name in shipped.names() if "/" in name]


def cells(file):
    """Flat configurations of all cells, without name and seed."""
    base, made = config.load(file), []
    for changes in product(axes(base, files.axes(file))):
        fields = config.flat(base) | changes
        made.append({k: v for k, v in fields.items() if k not in ("name", "seed")})
    return made


def commands(name):
    """The configurations that a file's docstring names."""
    text = (ROOT / "configs" / f"{name}.py").read_text()
    return re.findall(r"jaxproto sweep --config=(\S+)", text)


def test_there_are_the_sweeps_of_the_papers():
    assert {
        "sweeps/protonorm_table4",
        "sweeps/protonorm_table5",
        "sweeps/tinyproto_figure4",
        "sweeps/tinyproto_figure5",
        "sweeps/dirichlet_alpha",
        "sweeps/clients",
    } <= {*FILES}


@pytest.mark.parametrize("name", FILES)
def test_a_file_names_its_commands_and_its_picture(name):
    said = commands(name)
    assert said[0] == name and f"{name}:digits" in said
    text = (ROOT / "configs" / f"{name}.py").read_text()
    drawn = set(re.findall(r"`accuracy_against_(\S+)\.png`", text))
    swept = {k for file in said for k in axes_of(file)} - {"seed"}
    assert drawn == swept
    assert shipped.about(name).endswith(".")


def axes_of(file):
    return {
        field for axis in axes(config.load(file), files.axes(file)) for field in axis[0]
    }


@pytest.mark.parametrize("file", [f for name in FILES for f in commands(name)])
def test_every_cell_of_a_command_is_a_configuration(file):
    base = config.load(file)
    for changes in product(axes(base, files.axes(file))):
        cell = base.copy_and_resolve_references()
        cell.update_from_flattened_dict(changes)
        config.check(cell)


@pytest.mark.parametrize("dataset", presets.DATASETS)
@pytest.mark.parametrize("name", FILES)
def test_a_sweep_is_there_for_every_data_set(name, dataset):
    file = f"{name}:{dataset}"
    assert config.load(file).data.name == presets.DATASETS[dataset].get(
        "data.name", "digits"
    )
    assert len(cells(file)) >= 6


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_the_sweep_of_digits_can_train(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = f"{name}:digits"
    base = config.load(file)
    whole = plan(base, axes(base, files.axes(file)), plain=config.plain(file))
    kind = name.removeprefix("sweeps/")
    assert all(cell.path.name.startswith(kind) for cell in whole.cells)
    assert whole.folder.name.startswith(kind)


def rows(table, want):
    """Printed cells of a table, as data set, method and fields."""
    found = {}
    for name, row in names.rows(table).items():
        fields = config.flat(names.configuration(table, name))
        fields = {k: v for k, v in fields.items() if k not in ("name", "seed")}
        if want(fields):
            found[name] = PRESETS[row.dataset], fields
    return found


def usual_width(width):
    return lambda f: f["model.feat_dim"] == width


@pytest.mark.parametrize(
    ("table", "file", "count", "want"),
    [
        ("protonorm4", "protonorm_table4:{dataset}", 18, usual_width(512)),
        ("protonorm5", "protonorm_table5:{dataset},{method}", 20, usual_width(512)),
        (
            "protonorm2",
            "dirichlet_alpha:{dataset},{method}",
            21,
            lambda f: usual_width(512)(f) and f["data.clients"] == 20,
        ),
        (
            "protonorm2",
            "clients:{dataset},{method}",
            14,
            lambda f: usual_width(512)(f) and f["data.clients"] > 20,
        ),
        (
            "tinyproto2",
            "dirichlet_alpha:{dataset},{method},{base}",
            4,
            lambda f: (
                usual_width(500)(f) and "method.s" in f and f["data.clients"] == 20
            ),
        ),
        (
            "tinyproto2",
            "clients:{dataset},{method},{base}",
            2,
            lambda f: (
                usual_width(500)(f) and "method.s" in f and f["data.clients"] > 20
            ),
        ),
    ],
)
def test_a_sweep_has_the_printed_cells_of_its_table(table, file, count, want):
    printed = rows(table, want)
    assert len(printed) == count
    for name, (dataset, fields) in printed.items():
        base = {"fedtgp": "ft", "fedproto": "fp"}.get(fields.get("method.base"), "")
        words = {"dataset": dataset, "method": fields["method.name"], "base": base}
        mine = cells(f"sweeps/{file.format(**words)}")
        assert mine.count(fields) == 3, name  # seeds


def test_values_of_s_and_d_are_equal_shares_and_the_printed_ones_of_500():
    assert presets.widths(500) == [50, 150, 250, 350, 450]
    assert presets.widths(64) == [6, 19, 32, 45, 58]
    assert presets.widths(2) == [1, 2]
    variants = {row.variant for row in names.rows("cps2").values()}
    assert {f"CPS s={s}" for s in presets.widths(500)} <= variants
    tiny, proto = (
        axes_of(f"sweeps/tinyproto_figure5:{m}") for m in ("tinyproto", "fedproto")
    )
    assert tiny == {"seed", "method.s"} and proto == {"seed", "model.feat_dim"}
    assert config.load("sweeps/tinyproto_figure4").method.base == "fedtgp"
    assert config.load("sweeps/tinyproto_figure5").method.base == "fedproto"


@pytest.mark.parametrize(
    ("arg", "want"),
    [
        ("", ("a", "cifar10")),
        ("b", ("b", "cifar10")),
        ("spiral,b,ft", ("b", "spiral,ft")),
        ("ft", ("a", "cifar10,ft")),
    ],
)
def test_method_and_presets_of_a_sweep(arg, want):
    assert config.of_sweep(arg, ["a", "b"], "cifar10") == want


def test_two_methods_in_one_sweep_are_refused():
    with refused("'fedtgp,fedproto' names 2 methods; sweep over each alone."):
        config.load("sweeps/clients:fedtgp,fedproto")
    with refused("unknown preset 'fedtpg'. There are: ag_news"):
        config.load("sweeps/clients:fedtpg")


# ------------------------------------------------------------------ found, shipped


def test_sweeps_are_found_by_their_name_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = shipped.folder() / "sweeps" / "clients.py"
    for file in ("sweeps/clients", "sweeps/clients.py", "configs/sweeps/clients.py"):
        assert shipped.find(f"{file}:digits") == f"{path}:digits"
    for file in ("clients", "mine/sweeps/clients", "sweeps/mine/clients", "/", ""):
        assert shipped.find(file) == file
    with refused("Did you mean 'sweeps/clients.py'? With the package come: comparison"):
        config.load("sweeps/client")
    with pytest.raises(
        UserError, match=r"tinyproto\.py, .*sweeps/tinyproto_figure5\.py"
    ):
        config.load("/")


def test_sweeps_are_below_the_folder_that_a_wheel_takes_in():
    made = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = made["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert wheel["force-include"] == {"configs": "jaxproto/configs"}
    assert shipped.folder() == ROOT / "configs"


def test_list_has_the_sweeps(capsys):
    with pytest.raises(SystemExit):
        cli.main(["list", "sweeps"])
    out = capsys.readouterr().out
    for name in FILES:
        assert re.search(rf"^{name} +\S.*\.$", out, re.M)


def test_every_method_can_be_swept_over_alpha_and_clients():
    for method in METHODS:
        for name in ("clients", "dirichlet_alpha"):
            c = config.load(f"sweeps/{name}:digits,{method}")
            config.check(c)
            assert c.method.name == method and c.name == f"{name}-{method}"

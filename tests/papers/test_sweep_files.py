"""The sweeps of the papers in configs/sweeps: found, whole, their tables' settings."""

import functools
import re

from support.every import check_every
from support.runs import ROOT

from jaxproto import config
from jaxproto.config import builtin, files, presets
from jaxproto.lab.sweeps import parse_axes
from jaxproto.lab.sweeps.axes import cell_changes
from jaxproto.methods import METHODS
from jaxproto.papers import tables
from jaxproto.papers.cells import PRESETS

FILES = [name for name in builtin.names() if "/" in name]


@functools.cache
def loaded(file):
    """Configuration and axes of a sweep."""
    base = config.load(file)
    return base, parse_axes(base, files.sweep_axes(file))


@functools.cache
def cells(file):
    """Flat configurations of all cells, without name and seed."""
    base, axes = loaded(file)
    flat = config.flatten(base)
    every = [flat | changes for changes in cell_changes(axes)]
    return [{k: c[k] for k in c if k not in ("name", "seed")} for c in every]


def axes_of(file):
    return {field for axis in loaded(file)[1] for field in axis.fields}


def test_a_file_names_its_commands_of_which_every_cell_can_run_and_its_picture():
    def check(name):
        text = (ROOT / "configs" / f"{name}.py").read_text()
        said = re.findall(r"jaxproto sweep --config=(\S+)", text)
        assert said[0] == name and f"{name}:digits" in said
        drawn = {*re.findall(r"`accuracy_against_(\S+)\.png`", text)}
        assert drawn == {k for file in said for k in axes_of(file)} - {"seed"}
        assert builtin.docstring_line(name).endswith(".")
        for file in said:
            base, axes = loaded(file)
            for changes in cell_changes([a for a in axes if [*a.fields] != ["seed"]]):
                cell = base.copy_and_resolve_references()
                cell.update_from_flattened_dict(changes)
                config.check(cell)

    papers = "protonorm_table4 protonorm_table5 tinyproto_figure4 tinyproto_figure5"
    every = f"{papers} dirichlet_alpha clients"
    assert {f"sweeps/{name}" for name in every.split()} <= {*FILES}
    check_every(FILES, check)


def test_every_method_has_its_sweeps():
    for method in METHODS:
        for name in ("clients", "dirichlet_alpha"):
            c = config.load(f"sweeps/{name}:digits,{method}")
            config.check(c)
            assert c.method.name == method and c.name == f"{name}-{method}"


EVERY, USUAL, MORE = range(1, 10**6), [20], range(21, 10**6)  # numbers of clients
TABLES = (  # a table, the sweep of a row, how many cells of that kind, width, clients
    ("protonorm4", "protonorm_table4:{dataset}", 18, 512, EVERY),
    ("protonorm5", "protonorm_table5:{dataset},{method}", 20, 512, EVERY),
    ("protonorm2", "dirichlet_alpha:{dataset},{method}", 21, 512, USUAL),
    ("protonorm2", "clients:{dataset},{method}", 14, 512, MORE),
    ("tinyproto2", "dirichlet_alpha:{dataset},{method},{base}", 4, 500, USUAL),
    ("tinyproto2", "clients:{dataset},{method},{base}", 2, 500, MORE),
)


def printed(table, width, clients):
    """Cells of a table: name, data set and fields."""
    for name, row in tables.cells_of_table(table).items():
        fields = config.flatten(tables.configuration(table, name))
        fields = {k: v for k, v in fields.items() if k not in ("name", "seed")}
        if fields["model.feat_dim"] == width and fields["data.clients"] in clients:
            yield name, PRESETS[row.dataset], fields


def test_a_sweep_has_the_printed_cells_of_its_table():
    def check(table, file, count, width, clients):
        wanted = list(printed(table, width, clients))
        if "{base}" in file:
            wanted = [cell for cell in wanted if "method.s" in cell[2]]
        assert len(wanted) == count
        for name, dataset, fields in wanted:
            base = {"fedtgp": "ft", "fedproto": "fp"}.get(fields.get("method.base"), "")
            words = {"dataset": dataset, "method": fields["method.name"], "base": base}
            mine = cells(f"sweeps/{file.format(**words)}")
            assert mine.count(fields) == 3, name  # seeds

    check_every(TABLES, check)


def test_values_of_s_and_d_are_equal_shares_and_the_printed_ones_of_500():
    assert presets.widths(500) == [50, 150, 250, 350, 450]
    assert presets.widths(64) == [6, 19, 32, 45, 58]
    variants = {row.variant for row in tables.cells_of_table("cps2").values()}
    assert {f"CPS s={s}" for s in presets.widths(500)} <= variants
    for method, field in (("tinyproto", "method.s"), ("fedproto", "model.feat_dim")):
        assert axes_of(f"sweeps/tinyproto_figure5:{method}") == {"seed", field}

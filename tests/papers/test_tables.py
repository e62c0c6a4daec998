"""Printed numbers of the papers: beside our own, and as configurations of runs."""

import inspect
import json
import runpy
import shlex
from collections import Counter

import pytest
from support.every import every
from support.refusal import refused
from support.runs import ROOT
from support.workdirs import AS_PRINTED, cells_of, folder, made

from jaxproto import config, models
from jaxproto.config import presets
from jaxproto.lab import compare
from jaxproto.lab.compare import run_groups
from jaxproto.papers import cells
from jaxproto.papers import tables as names
from jaxproto.papers.rules import published_rule
from jaxproto.papers.variants import READINGS, in_table
from jaxproto.storage.run_folder import run_folders

RECORDS = ROOT / "results/fashion_mnist/records"


def protocol(name="mnist", alpha=0.5, **more):
    """Fields of RefProtoFL's cells."""
    setting = {k.replace(".", "__"): v for k, v in presets.REFPROTOFL.items()}
    return {**setting, "data__name": f"tfds:{name}", "data__alpha": alpha, **more}


def test_the_published_number_of_a_cell_is_beside_ours(tmp_path):
    wide = folder(tmp_path / "b", "fedtgp", model__feat_dim=512)  # N Section 5.1
    table = made(folder(tmp_path / "a", **AS_PRINTED), wide)
    mine = cells_of(table)
    printed = "{} (TinyProto, Table 1); {} (CPS+PPA+CPKD, Table 1)"
    assert mine["published %"] == printed.format("86.02 ± 0.38", "82.90 ± 0.46")
    assert mine["M/round"] == "0.151"
    assert mine["published M/round"] == printed.format("0.15", "0.15")
    other = cells_of(table, "FedTGP")["published %"]
    assert other.startswith("86.32 ± 0.49 (ProtoNorm, Table")
    assert any("best of 300 rounds" in note for note in table.notes)
    for name, other in {"pool": False, "alpha": 0.3}.items():  # another setting
        run = folder(tmp_path / name, **AS_PRINTED, **{f"data__{name}": other})
        assert "published %" not in made(run).head


def test_our_best_by_the_rule_of_the_published_number_is_beside_it(tmp_path):
    rules = ("head", "local", "global", "received")
    paths = [
        folder(tmp_path / name, name, rules=rules, **AS_PRINTED)
        for name in ("fedproto", "fml", "refprotofl")
    ]
    for n, rule in enumerate(("global", "head")):
        summary = json.loads((paths[n] / "summary.json").read_text())
        summary["rules"][rule]["pooled"]["best"] = 0.9 + n / 100
        (paths[n] / "summary.json").write_text(json.dumps(summary))
    table = made(*paths, statistics=["final"], averages=["client"], rules=["local"])
    columns = ("method", "published by", "best by it %")
    rows = [tuple(cells_of(table, row[0])[c] for c in columns) for row in table.rows]
    assert rows == [
        ("FedProto", "global", "90.00"),
        ("FML", "head", "91.00"),
        ("RefProtoFL", "-", "-"),
    ]
    # A rule that the run does not have is not replaced by another.
    other = folder(tmp_path / "a", "fedavg", rules=("received",), **protocol())
    got = cells_of(made(other), "FedAvg")
    assert got["published by"] == "head, mean over clients"
    assert got["best by it %"] == "-" and got["published %"].startswith("88.18")


def test_every_printed_accuracy_has_a_cell_and_a_rule_that_its_method_has():
    """By the records in the repository; without a cell are AVERAGE rows alone."""
    numbers = cells.published_numbers()
    accuracies = [r for r in numbers if r.metric in cells.ACCURACY]
    assert (len(numbers), len(accuracies)) == (502, 400)
    none = [r for r in accuracies if cells.paper_cell(r) is None]
    assert Counter(r.table for r in none) == {"2": 8}
    assert all(r.dataset.startswith("AVERAGE") for r in none)
    printed = (r for r in accuracies if r not in none)
    each = ((cells.paper_cell(row), published_rule(row)) for row in printed)
    found = {(cell.identity["method.name"], *rule) for cell, rule in each}
    there = run_folders(RECORDS)
    for method, rule, average in found:
        files = (f"{method}-0", f"{method}_paper-0")
        record = next(RECORDS / n for n in files if RECORDS / n in there)
        kinds = compare.load(record).summary["rules"][rule]
        assert kinds[average]["best"] is not None


def test_settings_unlike_the_papers_are_listed_for_the_closest_reading(tmp_path):
    """lam 0.1 is a paper's for FedProto (S 5.1), not the default."""
    here = {**AS_PRINTED, "rounds": 5}
    notes = made(folder(tmp_path / "a", wire__up="int8", **here)).notes
    line = "cifar10: FedProto, {}'s setting{} in brackets: {}rounds 5 (300){}."
    wire = ", wire.up int8 (float32)"
    assert line.format("TinyProto", "", "", wire) in notes
    assert line.format("CPS+PPA+CPKD", "", "", wire) in notes
    read = READINGS["fedproto"]["paper"] | {"method.lam": 0.1}
    read = {k.replace(".", "__"): v for k, v in read.items()}
    notes = made(folder(tmp_path / "b", **here, **read)).notes
    assert line.format("CPS+PPA+CPKD", " (reading=paper)", "", "") in notes
    assert any("method.lam 0.1 (" in note and "TinyProto's" in note for note in notes)


def check_reading(row, identity, plain, made, reading):
    """A configuration is in the cell of a row, and has the values of its reading."""
    config.check(made)
    fields = config.flatten(made)
    assert cells.matches(identity, fields, run_groups.dataset(fields["data.name"]))
    assert not cells.differences_from_paper(row, fields, reading)
    wanted = in_table(fields["method.name"], reading)
    if row.source == "refprotofl":
        wanted = {k: v for k, v in wanted.items() if k.startswith("method.")}
    stated = cells.PAPER_VALUES.get((row.source, fields["method.name"]), {})
    wanted = wanted | (stated if reading == "paper" else {})
    for key, value in config.resolve_callables(plain, wanted).items():
        kept = identity.get(key, value)  # gamma where the table varies it
        assert fields[key] in (value, kept), key


STATED = {  # fields outside `method` that a paper or release states for one method
    **presets.RUN_FIELDS,
    "refprotofl": {"data.public_share": 0.01},
}
DEFAULTS = config.flatten(config.default_config())
main = runpy.run_path(str(ROOT / "configs/table.py"))["main"]


def protocol_of(made):
    """The fields of a configuration besides its method and what is stated for it."""
    fields, stated = config.flatten(made), STATED.get(made.method.name, {})
    assert stated.items() <= fields.items()
    fields |= {k: DEFAULTS[k] for k in stated}
    own = [k for k in fields if k.startswith("method.")]
    return {k: v for k, v in fields.items() if k not in (*own, "name")}


@pytest.mark.long
@every(sorted(names.TABLES))
def test_every_cell_of_a_table_is_found_again_and_all_have_one_protocol(table):
    """In every reading; the networks of a cell read its data."""
    printed = (r for r in names.table_rows() if r.metric in cells.ACCURACY)
    of_table = [r for r in printed if (r.source, r.table) == names.TABLES[table]]
    there, protocols = names.cells_of_table(table), {}
    assert len(there) == sum(cells.paper_cell(r) is not None for r in of_table)
    for name, row in there.items():
        plain = names.configuration(table, name)
        networks = [*models.group_members(plain.model.group), plain.method.get("aux")]
        asked = [inspect.signature(models.NETS[n]).parameters for n in networks if n]
        assert {"vocab_size" in a for a in asked} == {row.dataset == "AG News"}, name
        varied = [getattr(row, k) for k in names.VARIED_FIELDS]
        for reading in cells.READINGS:
            made = names.configuration(table, name, reading) if reading else plain
            check_reading(row, cells.paper_cell(row).identity, plain, made, reading)
            if reading:
                assert made.name == f"{table}-{name}-{reading}"
            column = (reading, row.dataset, *varied)
            protocols.setdefault(column, []).append(protocol_of(made))
    for column, rows in protocols.items():
        assert run_groups.differing_fields(rows) == [], column
    assert max(map(len, protocols.values())) > 1


def test_cells_of_the_comparison_have_one_protocol_in_the_reading_of_the_code():
    cases = [n for n in READINGS if "code" in READINGS[n]]
    loaded = [config.load(f"configs/comparison.py:{name},code") for name in cases]
    assert run_groups.differing_fields([*map(protocol_of, loaded)]) == []


def test_the_table_file_prints_commands():
    given = ["protonorm5:reading=paper", "--all", "--seeds=0,3"]
    text = main([*given, "--config.data.data_dir=a b"])
    words = [shlex.split(line, comments=True) for line in text.splitlines()]
    table = names.cells_of_table("protonorm5")
    name = next(iter(table))
    file = f"--config=configs/table.py:protonorm5,{name}:reading=paper"
    assert words[0][:3] == ["python", "main.py", file]
    workdir = f"--workdir=runs/protonorm5-paper/{name}-0"
    assert words[0][3:] == ["--config.seed=0", workdir, "--config.data.data_dir=a b"]
    assert len(words) == 2 * len(table) == len({w[4] for w in words})
    # Without --all it is a list, with printed numbers.
    assert main(["cps1"]).splitlines()[0].endswith("  # 86.91 ± 0.14")
    assert main([]).split() == sorted(names.TABLES)
    # Pairs of components (S 5.2, on three data sets and both bases) are not printed.
    lines = main(["cps_pairs"]).splitlines()
    assert len(lines) == 18 and all(x.endswith("  # not printed") for x in lines)
    made = names.configuration("cps_pairs", "cifar10-fedtgp-ppa-cpkd").method
    parts = made.base, made.masks, made.scaling, made.distill
    assert parts == ("fedtgp", "none", "sum", "cpkd")


def test_unknown_tables_cells_and_arguments_are_errors():
    for arguments, why in (
        (["cps9"], "unknown table 'cps9'"),
        (["cps1:code"], "'code' is no reading: write :reading="),
        (["cps1:reading=cod"], "unknown reading 'cod'. Did you mean 'code'"),
        (["cps1", "--all", "--rounds=3"], "'--rounds=3' is no argument"),
        (["cps1", "--all", "--seeds=0;1"], "'0;1' is no list of numbers"),
    ):
        with refused(why):
            main(arguments)
    with refused("unknown cell of cps1 'no-cell'"):
        names.configuration("cps1", "no-cell")

"""Runs side by side, and the cells of the published tables."""

import csv
import inspect
import io
import json
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

from jaxproto import compare, config, models
from jaxproto.compare import cells, names
from jaxproto.compare.__main__ import main
from jaxproto.errors import UserError


def folder(path, method="fedproto", seed=0, accuracy=0.5, status="finished", **fields):
    """A work directory as a run leaves it."""
    made = config.experiment(method, "cifar10")
    made.seed = seed
    made.update_from_flattened_dict(
        {k.replace("__", "."): v for k, v in fields.items()}
    )
    path.mkdir()
    (path / "config.json").write_text(made.to_json())
    one = {"final": accuracy, "best": accuracy + 0.1, "mean_last_10": accuracy}
    summary = {
        "status": status,
        "rules": {"head": {"pooled": one, "client_mean": one}},
        "bytes_per_round": {"up": 1_500_000.0, "down": 500.0},
        "scalars_per_round": {"nominal": 151_000},
        "seconds_per_round": 2.0,
    }
    if status:
        (path / "summary.json").write_text(json.dumps(summary))
    return path


def made(*paths, **how):
    return compare.table(compare.groups(map(compare.load, paths)), **how)


def test_seeds_share_a_cell_with_mean_and_population_deviation(tmp_path):
    paths = [folder(tmp_path / f"{s}", seed=s, accuracy=0.5 + s / 10) for s in (0, 1)]
    table = made(*paths)
    assert len(table.rows) == 1
    assert dict(zip(table.head, table.rows[0], strict=True))["head %"] == "55.00 ± 5.00"
    assert "2 seeds" in table.notes[0]


def test_the_first_note_says_what_an_accuracy_is(tmp_path):
    path = folder(tmp_path / "a")
    first = "Accuracy in %, final evaluation, pooled over test examples; mean ±"
    assert made(path).notes[0].startswith(first)
    first = "Accuracy in %, mean of the last 10 evaluations, mean over clients;"
    notes = made(path, statistic="last10", average="client").notes
    assert notes[0].startswith(first)


def test_rows_with_fewer_or_other_seeds_are_named(tmp_path):
    paths = [folder(tmp_path / f"a{s}", seed=s) for s in (0, 1)]
    table = made(*paths, folder(tmp_path / "b", "fedtgp", seed=1))
    assert "1 or 2 seeds" in table.notes[0]
    assert "Seeds: 0, 1 in fedproto; 1 in fedtgp." in table.notes


def test_runs_of_different_settings_never_share_a_cell(tmp_path):
    a = folder(tmp_path / "a", seed=0)
    b = folder(tmp_path / "b", seed=1, local__epochs=5)
    table = made(a, b)
    labels = [row[0] for row in table.rows]
    assert labels == ["fedproto (local.epochs=1)", "fedproto (local.epochs=5)"]
    assert any("local.epochs differs: 1 in" in note for note in table.notes)


def test_data_of_the_same_name_from_two_places_are_two_rows(tmp_path):
    a = folder(tmp_path / "a", data__name="npz:a/mine.npz", accuracy=0.1)
    b = folder(tmp_path / "b", data__name="npz:b/mine.npz", accuracy=0.9)
    assert [row[1] for row in made(a, b).rows] == ["10.00", "90.00"]


def test_settings_that_differ_between_data_sets_are_said(tmp_path):
    a = folder(tmp_path / "a", rounds=5)
    b = folder(tmp_path / "b", data__name="tfds:cifar100", rounds=300)
    table = made(a, b)
    assert [row[0] for row in table.rows] == ["fedproto"]
    assert "rounds differs: 5 in cifar10; 300 in cifar100." in table.notes


def test_what_says_nothing_of_the_numbers_does_not_tell_runs_apart(tmp_path):
    a = folder(tmp_path / "a", seed=0)
    b = folder(tmp_path / "b", seed=1, data__data_dir="elsewhere", checkpoint_every=1)
    assert len(made(a, b).rows) == 1


def test_the_same_run_twice_is_refused(tmp_path):
    a, b = folder(tmp_path / "a"), folder(tmp_path / "b")
    with pytest.raises(UserError, match="are the same run"):
        made(a, b)


def test_unfinished_and_diverged_runs_are_named_and_left_out(tmp_path):
    good = folder(tmp_path / "good")
    bad = folder(tmp_path / "bad", seed=1, status="diverged", accuracy=0.0)
    open_ = folder(tmp_path / "open", seed=2, status="")
    table = made(good, bad, open_)
    assert dict(zip(table.head, table.rows[0], strict=True))["head %"] == "50.00"
    assert any("bad (diverged)" in note for note in table.notes)
    assert any("open (not finished)" in note for note in table.notes)


def test_nothing_finished_is_an_error(tmp_path):
    with pytest.raises(UserError, match="none of these runs is finished"):
        made(folder(tmp_path / "a", status=""))


def test_statistic_and_average_are_what_is_shown(tmp_path):
    table = made(folder(tmp_path / "a"), statistic="best", average="client")
    assert table.rows[0][1] == "60.00"
    assert "best evaluation, mean over clients" in table.notes[0]


def test_a_rule_that_no_run_has_is_named(tmp_path):
    with pytest.raises(UserError, match="no run has rule 'local'; there are: head"):
        made(folder(tmp_path / "a"), rules=["local"])


def test_the_published_number_of_the_same_cell_stands_beside_ours(tmp_path):
    here = {"data__partition": "pfllib", "model__feat_dim": 500}
    table = made(folder(tmp_path / "a", **here), folder(tmp_path / "b", "fedtgp"))
    mine = [dict(zip(table.head, row, strict=True)) for row in table.rows]
    assert mine[0]["published %"] == (
        "86.02 ± 0.38 (TinyProto, Table 1); 82.90 ± 0.46 (CPS+PPA+CPKD, Table 1)"
    )
    assert mine[0]["M/round"] == "0.151"
    assert mine[0]["published M/round"] == (
        "0.15 (TinyProto, Table 1); 0.15 (CPS+PPA+CPKD, Table 1)"
    )
    assert mine[1]["published %"].startswith("86.32 ± 0.49 (ProtoNorm, Table")
    assert any("best of 300 rounds" in note for note in table.notes)


def test_what_a_paper_did_otherwise_is_said(tmp_path):
    """lam 0.1 is the paper's for FedProto (S 5.1), 1 the other's (T 5.1)."""
    here = {"data__partition": "pfllib", "model__feat_dim": 500, "rounds": 5}
    notes = made(folder(tmp_path / "a", wire__up="int8", **here)).notes
    line = "cifar10: fedproto, {}'s setting in brackets: {}rounds 5 (300), {}."
    wire = "wire.up int8 (float32)"
    assert line.format("TinyProto", "", wire) in notes
    weak = "method.lam 1.0 (0.1), "
    assert line.format("CPS+PPA+CPKD", weak, wire) in notes


def test_another_test_part_is_another_cell(tmp_path):
    """RefProtoFL tests on the official part."""
    here = {"data__partition": "pfllib", "model__feat_dim": 500}
    run = folder(tmp_path / "a", data__pool=False, **here)
    assert "published %" not in made(run).head


def test_other_settings_have_no_published_number(tmp_path):
    run = folder(tmp_path / "a", data__alpha=0.3, data__partition="pfllib")
    assert "published %" not in made(run).head


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv"])
def test_every_format_holds_all_cells_and_notes(tmp_path, form):
    table = made(folder(tmp_path / "a"))
    text = compare.render(table, form)
    plain = {"1,500.5": "1500.5", "-": ""} if form == "csv" else {}
    for cell in (*table.rows[0], "fedproto"):
        assert plain.get(cell, cell) in text
    assert all(note in text for note in table.notes)


def test_every_number_of_a_csv_has_a_field_of_its_own(tmp_path):
    paths = [folder(tmp_path / f"{s}", seed=s, accuracy=0.5 + s / 10) for s in (0, 1)]
    text = compare.render(made(*paths, folder(tmp_path / "b", "local")), "csv")
    lines = text.splitlines()
    notes = [line for line in lines if line.startswith("#")]
    rows = list(csv.DictReader(io.StringIO("\n".join(lines[: -len(notes)]))))
    assert [r["head %"] for r in rows] == ["55.00", "50.00"]
    assert [r["head % std"] for r in rows] == ["5.00", ""]
    assert [float(r["kB/round"]) for r in rows] == [1500.5, 1500.5]
    assert rows[1]["published %"] == "" and lines[-len(notes) :] == notes


def test_the_command_writes_a_file_and_refuses_strange_arguments(tmp_path):
    run, out = folder(tmp_path / "a"), tmp_path / "table.md"
    assert str(out) in main([str(run), "--format", "markdown", "--out", str(out)])
    assert "| fedproto" in out.read_text()
    with pytest.raises(UserError, match="is there already"):
        main([str(run), "--out", str(out)])
    with pytest.raises(UserError, match=r"holds no config\.json"):
        main([str(tmp_path)])
    with pytest.raises(UserError, match="invalid choice: 'html'"):
        main([str(run), "--format", "html"])
    with pytest.raises(UserError, match="cannot write"):
        main([str(run), "--out", str(tmp_path / "no" / "table.md")])


def test_a_damaged_summary_is_named(tmp_path):
    run = folder(tmp_path / "a")
    (run / "summary.json").write_text("{")
    with pytest.raises(UserError, match=r"summary\.json cannot be read"):
        compare.load(run)


@pytest.mark.parametrize("text", ["[]", "{}", '{"status": "finished"}'])
@pytest.mark.parametrize("name", ["summary", "config"])
def test_a_file_of_something_else_is_named(tmp_path, name, text):
    run = folder(tmp_path / "a")
    (run / f"{name}.json").write_text(text)
    with pytest.raises(UserError, match=rf"{name}\.json is no file of a run"):
        compare.load(run)


def test_the_table_of_published_numbers_is_whole():
    assert len(cells.printed()) == 502
    assert Counter(r.metric in cells.ACCURACY for r in cells.printed())[True] == 400


@pytest.mark.parametrize("table", sorted(names.TABLES))
def test_every_cell_of_a_table_has_its_own_name_and_is_found_again(table):
    """The configuration of a cell stands in the cell that it was made from."""
    source, number = names.TABLES[table]
    of_table = [
        r
        for r in cells.printed()
        if (r.source, r.table) == (source, number) and r.metric in cells.ACCURACY
    ]
    there = names.rows(table)
    assert len(there) == sum(cells.cell(r) is not None for r in of_table)
    for name, row in there.items():
        fields = config.flat(names.configuration(table, name))
        wanted = cells.cell(row).identity
        assert cells.matches(wanted, fields, compare.runs.dataset(fields["data.name"]))
        config.check(names.configuration(table, name))
        assert not cells.departures(row, fields)


def test_the_commands_of_the_table_file_are_cells():
    """Its default, and those that its text names."""
    module = runpy.run_path(str(Path(__file__).parents[1] / "configs/table.py"))
    default = "protonorm1-cifar10-protonorm-dirichlet-alpha0.1"
    assert module["get_config"]().name == default
    told = re.findall(r"--config=configs/table\.py:(\S+)", module["__doc__"])
    assert told and [module["get_config"](arg).name for arg in told]
    examples = re.findall("`([a-z0-9]+-[a-z0-9.-]+)`", names.__doc__)
    every = {name for table in names.TABLES for name in names.rows(table)}
    assert examples and every >= set(examples)


@pytest.mark.parametrize("table", sorted(names.TABLES))
def test_every_network_of_a_cell_reads_what_the_cell_has(table):
    """Texts or numbers, the auxiliary network too."""
    for name, row in names.rows(table).items():
        made = names.configuration(table, name)
        networks = [*models.members(made.model.group), made.method.get("aux")]
        asked = [inspect.signature(models.NETS[n]).parameters for n in networks if n]
        texts = row.dataset == "AG News"
        assert {"vocab_size" in a for a in asked} == {texts}, name


def test_what_no_configuration_expresses_is_known():
    none = [
        r
        for r in cells.printed()
        if r.metric in cells.ACCURACY and cells.cell(r) is None
    ]
    assert Counter(r.table for r in none) == {"2": 8, "5": 20}


def test_unknown_cells_are_named():
    with pytest.raises(UserError, match="unknown table 'cps9'"):
        names.rows("cps9")
    with pytest.raises(UserError, match="unknown cell of cps1 'cifar10-fedtpg'"):
        names.configuration("cps1", "cifar10-fedtpg")

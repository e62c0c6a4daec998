"""Runs side by side, and the cells of the published tables."""

import csv
import inspect
import io
import itertools
import json
import re
import runpy
import shlex
import shutil
from collections import Counter
from pathlib import Path

import pytest
from support.every import check_every
from support.refusal import refused
from support.workdirs import AS_PRINTED, cells_of, folder, made, record

from jaxproto import config, models
from jaxproto.cli import compare as command
from jaxproto.config import presets
from jaxproto.config.paper_variants import READINGS, in_table
from jaxproto.methods import METHODS
from jaxproto.reporting import compare
from jaxproto.reporting.compare import latex, run_groups
from jaxproto.reporting.compare import paper_cells as cells
from jaxproto.reporting.compare import paper_tables as names
from jaxproto.reporting.compare.paper_rules import published_rule

RECORDS = Path(__file__).parents[3] / "results/fashion_mnist/records"
SHARE = "cifar10: share of test examples in their client's commonest training class: "
ONE_CLASS = {"pooled": 0.25, "client_mean": 0.2, "examples": 400}


def test_seeds_share_a_cell_with_mean_and_population_deviation(tmp_path):
    paths = [folder(tmp_path / f"{s}", seed=s, accuracy=0.5 + s / 10) for s in (0, 1)]
    table = made(*paths)
    assert len(table.rows) == 1
    assert cells_of(table)["head best %"] == "65.00 ± 5.00"
    assert cells_of(table)["head final %"] == "55.00 ± 5.00"
    assert "2 seeds" in table.notes[0]
    table = made(*paths, folder(tmp_path / "b", "fedtgp", seed=1))
    assert "1 or 2 seeds" in table.notes[0]
    assert "Seeds: 0, 1 in FedProto; 1 in FedTGP." in table.notes


def test_a_method_that_nobody_registered_is_a_row_under_its_own_name(
    tmp_path, monkeypatch
):
    """A run of one's own method, compared in a process that does not know it."""

    def mine(spec, *, lam: float = 1.0):
        return METHODS["fedproto"](spec)

    monkeypatch.setitem(METHODS, "mine", mine)
    paths = [folder(tmp_path / f"{s}", "mine", seed=s, **AS_PRINTED) for s in (0, 1)]
    other = folder(tmp_path / "b", "mine", 0, 0.7, method__lam=2.0, **AS_PRINTED)
    known = folder(tmp_path / "c", "fedproto", **AS_PRINTED)
    monkeypatch.delitem(METHODS, "mine")
    table = made(*paths, other, known)
    labels = [row[0] for row in table.rows]
    assert labels == ["mine (lam=1.0)", "mine (lam=2.0)", "FedProto"]
    assert cells_of(table, "mine (lam=2.0)")["head final %"] == "70.00"
    assert cells_of(table, "mine (lam=2.0)")["published %"] == "-"
    assert cells_of(table, "FedProto")["published %"] != "-"


def test_the_first_note_says_what_an_accuracy_is(tmp_path):
    path = folder(tmp_path / "a")
    first = "Accuracy in %, best test round and final evaluation, pooled over test "
    assert made(path).notes[0].startswith(first)
    table = made(path, statistics=["best"], averages=["client"])
    assert cells_of(table)["head %"] == "60.00"
    assert "best test round, mean over clients" in table.notes[0]
    last = "Accuracy in %, mean of the last 10 evaluations or all if fewer, mean over "
    notes = made(path, statistics=["last10"], averages=["client"]).notes
    assert notes[0].startswith(last)
    assert not any(note.startswith("Last evaluations") for note in notes)


@pytest.mark.parametrize("form", ["text", "markdown", "latex", "csv", "json"])
def test_both_averages_stand_side_by_side_unless_one_is_asked(tmp_path, form, capsys):
    """In every format; p is that of each, and the first note names both."""
    mean = {"final": 0.4, "best": 0.45, "mean_last": 0.4}
    for method, seed in itertools.product(("fedproto", "fedtgp"), (0, 1)):
        pooled = {**mean, "best": 0.6 + seed / 10 + 0.1 * (method == "fedtgp")}
        rules = {"head": {"pooled": pooled, "client_mean": mean}}
        folder(tmp_path / f"{method}{seed}", method, seed, more={"rules": rules})
    runs = [*map(str, sorted(tmp_path.iterdir())), "--format", form]
    command.main("compare", [*runs, "--against", "fedproto"])
    text = capsys.readouterr().out.replace("\\", "")
    titles = ["best pooled %", "best mean %", "final pooled %", "final mean %"]
    places = [text.index(f"head {title}") for title in titles]
    assert places == sorted(places) and text.count("head best mean % p") >= 1
    assert "45.0" in text and "65.0" in text
    if form != "csv":
        assert "pooled over test examples and mean over clients" in text
    command.main("compare", [*runs, "--average", "client"])
    text = capsys.readouterr().out.replace("\\", "")
    assert "head best %" in text and "65.0" not in text and "45.0" in text


def test_unequal_rounds_have_columns_of_their_own(tmp_path):
    """No mark, rank, p or reference reaches from one to the other."""
    paths = [
        folder(tmp_path / f"{method}{rounds}", method, 0, accuracy, rounds=rounds)
        for method, rounds, accuracy in (
            ("fedproto", 20, 0.5),
            ("fedtgp", 20, 0.4),
            ("fedproto", 50, 0.9),
            ("local", 50, 0.8),
        )
    ]
    table = made(*paths, statistics=["final"], rank="all")
    short, long = "cifar10, 20 rounds head %", "cifar10, 50 rounds head %"
    got = {name: cells_of(table, name) for name in ("FedProto", "FedTGP")}
    assert (got["FedProto"][short], got["FedProto"][long]) == ("50.00", "90.00")
    assert (got["FedTGP"][short], got["FedTGP"][long]) == ("40.00", "-")
    assert cells_of(table, "Local (reference)")[short] == "-"
    assert got["FedTGP"][f"{short} rank"] == "2.0"
    missing = "No run of local on cifar10, 20 rounds: what clients reach alone"
    assert any(note.startswith(missing) for note in table.notes)
    assert not any("rounds differs" in note for note in table.notes)
    latex_head = compare.render(table, "latex")
    assert "{c}{CIFAR-10, 20 rounds}" in latex_head
    assert "{c}{CIFAR-10, 50 rounds}" in latex_head
    text = compare.render(made(*paths, statistics=["final"]), "markdown")
    longer, shorter = text.split("cifar10, 20 rounds\n\n")  # that of Local first
    assert longer.startswith("cifar10, 50 rounds\n\n| method")
    assert "**90.00**" in longer and "FedTGP" not in longer and "50.00" not in longer
    table, *notes = shorter.split("\n\n")
    assert "**50.00**" in table and "90.00" not in table and "Local" not in table
    assert notes[0].startswith("Accuracy in %")


def by_client(at, hits):
    """A record with the correct predictions of two clients of 10 and 30 examples."""
    kinds = {"pooled": sum(hits) / 40, "client_mean": (hits[0] / 10 + hits[1] / 30) / 2}
    told = {"id": [0, 1], "test_examples": [10, 30], "correct_head": hits}
    return {"round": at, "rules": {"head": kinds}, "by_client": told}


def test_a_longer_run_can_be_read_as_it_was_after_fewer_rounds(tmp_path, capsys):
    hits = {5: [9, 3], 10: [1, 27], 15: [10, 30]}
    rows = [by_client(*item) for item in hits.items()]
    long = folder(tmp_path / "long", rounds=15, eval_every=5, history=rows)
    short = folder(tmp_path / "short", "fedtgp", rounds=10, eval_every=5)
    cut = run_groups.until(compare.load(long), 10)
    groups = compare.group_by_seed([cut, compare.load(short)])
    table = compare.table(groups, statistics=["best", "final", "client_best"])
    got = cells_of(table)
    assert got["head best pooled %"] == got["head final pooled %"] == "70.00"
    assert got["head best mean %"] == "50.00"
    assert got["head client_best pooled %"] == "90.00"  # (9 + 27) / 40
    assert got["head client_best mean %"] == "90.00"
    assert cells_of(table, "FedTGP")["head client_best mean %"] == "-"
    command.main("compare", [str(long), str(short), "--rounds=10"])
    assert "rounds head" not in capsys.readouterr().out
    with refused("was not evaluated after 7 rounds: give --rounds a multiple of its"):
        run_groups.until(compare.load(long), 7)
    cosine = {"optimizer__schedule": "cosine", "rounds": 15}
    other = compare.load(folder(tmp_path / "cosine", history=rows, **cosine))
    with refused("its rounds depend on their number, 15"):
        run_groups.until(other, 10)


def test_a_run_on_nodes_stands_beside_its_simulation(tmp_path):
    """Every setting and the seed agree; where the clients were is the difference."""
    simulated, *deployed = (folder(tmp_path / name) for name in "abc")
    for path in deployed:
        (path / "nodes.json").write_text("{}")
    table = made(simulated, deployed[0])
    names = ["FedProto (clients=simulated)", "FedProto (clients=nodes)"]
    assert [row[0] for row in table.rows] == names
    (note,) = (note for note in table.notes if note.startswith("The clients of"))
    assert note.startswith(f"The clients of {names[1]} were nodes")
    with refused("same run"):
        made(*deployed)


def test_runs_of_different_settings_never_share_a_cell(tmp_path):
    a = folder(tmp_path / "a", rounds=5)
    table = made(a, folder(tmp_path / "b", seed=1, rounds=5, local__epochs=5))
    labels = [row[0] for row in table.rows]
    assert labels == ["FedProto (local.epochs=1)", "FedProto (local.epochs=5)"]
    assert any("local.epochs differs: 1 in" in note for note in table.notes)
    silent = {"data__data_dir": "elsewhere", "checkpoint_every": 1}  # of the numbers
    assert len(made(a, folder(tmp_path / "c", seed=1, rounds=5, **silent)).rows) == 1
    mine = [
        folder(tmp_path / at, data__name=f"npz:{at}/mine.npz", accuracy=accuracy)
        for at, accuracy in (("d", 0.1), ("e", 0.9))
    ]
    assert [row[2] for row in made(*mine).rows] == ["10.00", "90.00"]
    table = made(a, folder(tmp_path / "f", data__name="tfds:cifar100", rounds=300))
    assert [row[0] for row in table.rows] == ["FedProto"]
    assert "rounds differs: 5 in cifar10; 300 in cifar100." in table.notes


def test_records_of_several_commits_and_readings_are_told_apart(tmp_path):
    a = folder(tmp_path / "a", more={"commit": "aa", "reading": "code"})
    b = folder(tmp_path / "b", "fedtgp", more={"commit": "bb", "reading": "code"})
    notes = made(a, b).notes
    assert "commit differs: aa in FedProto; bb in FedTGP." in notes
    assert not any(note.startswith("reading differs") for note in notes)
    notes = made(a, folder(tmp_path / "c", "fedtgp")).notes
    assert "reading differs: code in FedProto; unknown in FedTGP." in notes


def test_unfinished_and_diverged_runs_are_named_and_left_out(tmp_path):
    good = folder(tmp_path / "good")
    bad = folder(tmp_path / "bad", seed=1, status="diverged", accuracy=0.0)
    open_ = folder(tmp_path / "open", seed=2, status="")
    table = made(good, bad, open_)
    assert cells_of(table)["head final %"] == "50.00"
    assert any("bad (diverged)" in note for note in table.notes)
    assert any("open (not finished)" in note for note in table.notes)
    with refused("none of these runs is finished"):
        made(open_)
    with refused("are the same run"):
        made(good, folder(tmp_path / "again"))
    with refused("no run has rule 'local'; there are: head"):
        made(good, rules=["local"])


def test_a_mean_of_the_last_evaluations_says_of_how_many(tmp_path):
    """Of older summaries, which do not, by the evaluations that are there."""
    few = dict.fromkeys(("best", "final", "mean_last"), 0.5) | {"last_n": 3}
    old = {"best": 0.5, "final": 0.5, "mean_last_10": 0.5}
    runs = [
        folder(
            tmp_path / method,
            method,
            more={"rules": {"head": {"pooled": digest, "client_mean": digest}}},
            history=history,
        )
        for method, digest, history in (
            ("fedproto", few, ()),
            ("fedtgp", old, [record(1, 0.5), record(2, 0.5)]),
            ("local", old, ()),
        )
    ]
    table = made(*runs, statistics=["last10"])
    assert {row[1] for row in table.rows} == {"50.00"}
    last = "10 at most in Local (reference); 3 in FedProto; 2 in FedTGP"
    assert f"Last evaluations: {last}." in table.notes


def test_local_stands_first_as_the_reference_or_is_said_to_be_missing(tmp_path):
    a = folder(tmp_path / "a")
    table = made(a, folder(tmp_path / "b", "local"))
    assert [row[0] for row in table.rows] == ["Local (reference)", "FedProto"]
    assert "Reference: local, clients that never exchange anything." in table.notes
    notes = made(a, folder(tmp_path / "c", "local", data__name="tfds:cifar100")).notes
    assert any(note.startswith("No run of local on cifar10: ") for note in notes)


def test_what_one_class_is_worth_stands_below_the_table(tmp_path):
    """By the summary; else by `partition.csv`, of other runs on the same data too."""
    told = folder(tmp_path / "told", more={"commonest_class": ONE_CLASS})
    assert SHARE + "25.00 %, mean over clients 20.00 %." in made(told).notes
    a, b = folder(tmp_path / "a"), folder(tmp_path / "b", "fedtgp", model__feat_dim=9)
    c = folder(tmp_path / "c", "fedgh", data__clients=3)
    (b / "partition.csv").write_text("c,s,0,1\n0,train,2,1\n0,test,3,1\n")
    unknown = (
        "unknown (no usable partition.csv: older runs, or nodes with their own data)"
    )
    assert SHARE + f"{unknown}." in made(a, c).notes
    here = "75.00 %, mean over clients 75.00 % in FedProto, FedTGP"
    assert SHARE + f"{here}; {unknown} in FedGH." in made(a, b, c).notes


def test_a_collapsed_run_is_named(tmp_path):
    """Of older records by the partition: TinyProto's head; counts of its share."""
    more = {"commonest_class": ONE_CLASS, "collapsed": {"head": 30}}
    notes = made(folder(tmp_path / "told", accuracy=0.25, more=more)).notes
    line = "cifar10: FedProto collapsed: head 0.2500 since round 30 (seed 0) is the sha"
    assert sum(note.startswith(line) for note in notes) == 1
    shutil.copytree(RECORDS / "tinyproto_paper-1", tmp_path / "a")
    right, size = 13_387, 17_507
    counts = f"0,train,2,1\n0,test,{right},{size - right}\n"
    (tmp_path / "a" / "partition.csv").write_text(f"client,split,0,1\n{counts}")
    rows = [tmp_path / "a", RECORDS / "tinyproto_paper-2"]
    line = "collapsed: head 0.7647 since round 30 (seed 1) is the share"
    assert any(line in note for note in made(*rows).notes)
    assert not any("collapsed" in note for note in made(rows[1]).notes)


def test_the_published_number_of_the_same_cell_stands_beside_ours(tmp_path):
    wide = folder(tmp_path / "b", "fedtgp", model__feat_dim=512)  # N Section 5.1
    table = made(folder(tmp_path / "a", **AS_PRINTED), wide)
    mine = [cells_of(table), cells_of(table, "FedTGP")]
    assert mine[0]["published %"] == (
        "86.02 ± 0.38 (TinyProto, Table 1); 82.90 ± 0.46 (CPS+PPA+CPKD, Table 1)"
    )
    assert mine[0]["M/round"] == "0.151"
    assert mine[0]["published M/round"] == (
        "0.15 (TinyProto, Table 1); 0.15 (CPS+PPA+CPKD, Table 1)"
    )
    assert mine[1]["published %"].startswith("86.32 ± 0.49 (ProtoNorm, Table")
    assert any("best of 300 rounds" in note for note in table.notes)


def test_the_best_by_the_rule_of_the_published_number_stands_beside_it(tmp_path):
    """Best and of that rule, whatever the table shows."""
    rules = ("head", "local", "global", "received")
    paths = [
        folder(tmp_path / name, name, rules=rules, **AS_PRINTED)
        for name in ("fedproto", "lg_fedavg", "fml", "refprotofl")
    ]
    for n, rule in enumerate(("global", "received", "head")):
        summary = json.loads((paths[n] / "summary.json").read_text())
        summary["rules"][rule]["pooled"]["best"] = 0.9 + n / 100
        (paths[n] / "summary.json").write_text(json.dumps(summary))
    table = made(*paths, statistics=["final"], averages=["client"], rules=["local"])
    columns = ("method", "published by", "best by it %")
    rows = [tuple(cells_of(table, row[0])[c] for c in columns) for row in table.rows]
    assert rows == [
        ("FedProto", "global", "90.00"),
        ("LG-FedAvg", "received", "91.00"),
        ("FML", "head", "92.00"),
        ("RefProtoFL", "-", "-"),
    ]
    # A rule that the run does not have is not replaced by another.
    other = folder(tmp_path / "a", "fedavg", rules=("received",), **protocol())
    got = cells_of(made(other), "FedAvg")
    assert got["published by"] == "head, mean over clients"
    assert got["best by it %"] == "-" and got["published %"].startswith("88.18")


def protocol(name="mnist", alpha=0.5, **more):
    """Fields of RefProtoFL's cells."""
    setting = {k.replace(".", "__"): v for k, v in presets.REFPROTOFL.items()}
    return {**setting, "data__name": f"tfds:{name}", "data__alpha": alpha, **more}


def test_every_printed_accuracy_has_a_rule_that_its_method_has():
    """By the records in the repository."""
    found = {
        (cells.paper_cell(row).identity["method.name"], *published_rule(row))
        for row in cells.published_numbers()
        if row.metric in cells.ACCURACY and cells.paper_cell(row)
    }
    printed = {method for method, *_ in found}
    unprinted = "local fedper ditto feddyn fedgen fedhp fedpcl fedproc fedrep fpl moon "
    unprinted += "scaffold feddf fedl2g fedmd fedmrl fedpac fedsa heterofl"
    assert printed == {*METHODS} - {*unprinted.split()}
    for method, rule, average in found:
        names = (f"{method}-0", f"{method}_paper-0")
        record = next(RECORDS / n for n in names if (RECORDS / n).exists())
        kinds = compare.load(record).summary["rules"][rule]
        assert kinds[average]["best"] is not None


def test_the_average_over_all_cells_of_a_method_stands_beside_the_printed_one(tmp_path):
    sets = ("mnist", "fashion_mnist", "cifar10", "cifar100")
    each = [(name, alpha) for name in sets for alpha in (0.5, 100.0)]
    paths = [
        folder(tmp_path / f"{n}", "fedavg", accuracy=n / 10, **protocol(*one))
        for n, one in enumerate(each)
    ]
    line = "Average over the 8 cells of FedAvg in RefProtoFL, Table 2: 45.00 (best by "
    full = f"{line}head, mean over clients); published 59.01."
    assert [n for n in made(*paths).notes if n.startswith("Average")] == [full]
    assert not any(n.startswith("Average") for n in made(*paths[:-1]).notes)


def test_what_a_paper_did_otherwise_is_said_by_the_reading_that_is_closest(tmp_path):
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


def test_other_settings_have_no_published_number(tmp_path):
    """RefProtoFL alone tests on the official part."""
    for name, other in {"pool": False, "alpha": 0.3}.items():
        run = folder(tmp_path / name, **AS_PRINTED, **{f"data__{name}": other})
        assert "published %" not in made(run).head


@pytest.mark.parametrize("form", ["text", "markdown", "latex"])
def test_every_format_for_readers_holds_all_cells_and_notes(tmp_path, form):
    table = made(folder(tmp_path / "a"))
    text = compare.render(table, form)
    written = latex.escaped if form == "latex" else str
    for cell in (*table.rows[0], "FedProto"):
        assert written(cell) in text
    first, *notes = table.notes
    assert written(first) in text and all(note in text for note in notes)


def test_csv_and_json_are_plain_and_have_one_number_in_a_field(tmp_path):
    """Two seeds in a cell that a paper prints, and local training."""
    rules = {"rules": ("head", "local")}
    paths = [
        folder(tmp_path / f"{s}", seed=s, accuracy=0.5 + s / 10, **rules, **AS_PRINTED)
        for s in (0, 1)
    ]
    table = made(*paths, folder(tmp_path / "b", "local", **rules, **AS_PRINTED))
    text = compare.render(table, "csv")
    assert text.count("\r\n") == 3 and text.count("\n") == 3 and "±" not in text
    head, *cells = csv.reader(io.StringIO(text, newline=""))
    local, mine = (dict(zip(head, row, strict=True)) for row in cells)
    assert [r["head final %"] for r in (local, mine)] == ["50.0", "55.0"]
    assert [r["head final % std"] for r in (local, mine)] == ["", "5.0"]
    assert [float(r["kB/round"]) for r in (local, mine)] == [1500.5, 1500.5]
    printed = cells_of(table)["published %"]
    mean, std = mine["published %"], mine["published % std"]
    assert printed.startswith(f"{float(mean):.2f} ± {float(std):.2f} (TinyProto, Table")
    assert mine["published % source"].startswith("TinyProto, Table")
    texts = ("method", "published by")
    for title, *column in zip(head, *cells, strict=True):
        if title not in texts and not title.endswith("source"):
            assert [float(c) for c in column if c] or not any(column), title
    whole = json.loads(compare.render(table, "json"))
    assert [row["head final % std"] for row in whole["rows"]] == [None, 5.0]
    assert whole["notes"] == list(table.notes)


def test_the_command_writes_a_file_and_refuses_strange_arguments(tmp_path, capsys):
    run, out = folder(tmp_path / "a"), tmp_path / "table.md"
    command.main("compare", [str(run), "--format", "csv"])
    said, err = capsys.readouterr()  # notes of a csv go to the standard error
    assert said.startswith("method,") and "Accuracy in %" in err and "#" not in said
    command.main("compare", [str(run), "--format", "markdown", "--out", str(out)])
    assert str(out) in capsys.readouterr().out
    assert "| FedProto" in out.read_text()
    (empty := tmp_path / "empty").mkdir()
    for arguments, why in [
        ([run, "--out", out], "exists already"),
        ([empty], "holds no config.json"),
        ([run, "--format", "html"], "invalid choice: 'html'"),
        ([run, "--out", tmp_path / "no" / "table.md"], "cannot write"),
    ]:
        with refused(why):
            command.main("compare", [*map(str, arguments)])


def test_a_sweep_is_compared_by_its_folder_in_the_width_of_the_terminal(
    tmp_path, capsys, monkeypatch
):
    cells = [
        folder(tmp_path / f"sweep/{lam:g}", method__lam=lam, rules=("head", "global"))
        for lam in (1.0, 10.0)
    ]
    tables = []
    for given in ([tmp_path / "sweep"], cells):
        command.main("compare", [*map(str, given), "--format", "csv"])
        tables.append(capsys.readouterr().out)
    assert tables[0] == tables[1]
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    for columns in (75, 40, 300):
        monkeypatch.setenv("COLUMNS", str(columns))
        command.main("compare", [str(tmp_path / "sweep")])
        said = capsys.readouterr().out.splitlines()
        drawn = [line for line in said if line.startswith(("│", "╭"))]
        assert max(map(len, drawn)) <= columns
        head = made(*cells, averages=["pooled", "client"]).head
        assert {*" ".join(head).split()} <= {*" ".join(said).split()}


def test_a_damaged_file_or_one_of_something_else_is_named(tmp_path):
    run = folder(tmp_path / "a")

    def check(name, text, why):
        whole = (run / name).read_text()
        (run / name).write_text(text)
        with refused(f"{name} cannot be read{why}"):
            compare.load(run)
        (run / name).write_text(whole)

    texts = ("[]", "{}", '{"status": "finished"}')
    others = [(f"{n}.json", t, " (it") for n in ("summary", "config") for t in texts]
    check_every([("summary.json", "{", ""), *others], check)


def test_the_table_of_published_numbers_is_whole():
    """Without a configuration are AVERAGE rows alone."""
    accuracies = [r for r in cells.published_numbers() if r.metric in cells.ACCURACY]
    assert (len(cells.published_numbers()), len(accuracies)) == (502, 400)
    none = [r for r in accuracies if cells.paper_cell(r) is None]
    assert Counter(r.table for r in none) == {"2": 8}
    assert all(r.dataset.startswith("AVERAGE") for r in none)


@pytest.mark.parametrize("table", sorted(names.TABLES))
def test_every_cell_of_a_table_has_its_own_name_and_is_found_again(table):
    """Its configuration stands in the cell in any reading; networks read its data."""
    of_table = [
        r
        for r in names.table_rows()
        if (r.source, r.table) == names.TABLES[table] and r.metric in cells.ACCURACY
    ]
    there = names.cells_of_table(table)
    assert len(there) == sum(cells.paper_cell(r) is not None for r in of_table)
    for name, row in there.items():
        plain, identity = (
            names.configuration(table, name),
            cells.paper_cell(row).identity,
        )
        networks = [*models.group_members(plain.model.group), plain.method.get("aux")]
        asked = [inspect.signature(models.NETS[n]).parameters for n in networks if n]
        assert {"vocab_size" in a for a in asked} == {row.dataset == "AG News"}, name
        for reading in ("", "code", "paper"):
            made = names.configuration(table, name, reading) if reading else plain
            fields = config.flatten(made)
            config.check(made)
            dataset = compare.run_groups.dataset(fields["data.name"])
            assert cells.matches(identity, fields, dataset)
            assert not cells.differences_from_paper(
                row, fields, *filter(None, [reading])
            )
            if reading:
                assert made.name == f"{table}-{name}-{reading}"
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


def protocol_of(made):
    """What a configuration has besides its method and what is stated for that alone."""
    fields, stated = config.flatten(made), STATED.get(made.method.name, {})
    assert stated.items() <= fields.items()
    plain = config.flatten(config.default())
    fields |= {k: plain[k] for k in stated}
    rest = {k: v for k, v in fields.items() if not k.startswith("method.")}
    return {k: v for k, v in rest.items() if k != "name"}


@pytest.mark.parametrize("reading", cells.READINGS)
@pytest.mark.parametrize("table", sorted(names.TABLES))
def test_all_rows_of_a_table_have_one_protocol_in_every_reading(table, reading):
    """One initialisation, partition, number of rounds and optimiser."""
    by_column = {}
    for name, row in names.cells_of_table(table).items():
        rest = protocol_of(names.configuration(table, name, reading))
        column = row.dataset, *(getattr(row, k) for k in names.VARIED_FIELDS)
        by_column.setdefault(column, []).append(rest)
    for column, rows in by_column.items():
        assert run_groups.differing_fields(rows) == [], column
    assert max(map(len, by_column.values())) > 1


def test_cells_of_the_comparison_have_one_protocol_in_the_reading_of_the_code():
    cases = [n for n in READINGS if "code" in READINGS[n]]
    loaded = [config.load(f"configs/comparison.py:{name},code") for name in cases]
    assert run_groups.differing_fields([*map(protocol_of, loaded)]) == []


def table_file():
    return runpy.run_path(str(Path(__file__).parents[3] / "configs/table.py"))


def test_the_commands_of_the_table_file_are_cells():
    """Its default, and those that its text names."""
    module = table_file()
    default = "protonorm1-cifar10-protonorm-dirichlet-alpha0.1"
    assert module["get_config"]().name == default
    told = re.findall(r"--config=configs/table\.py:(\S+)", module["__doc__"])
    assert told and [module["get_config"](arg).name for arg in told]
    examples = re.findall("`([a-z0-9]+-[a-z0-9.-]+)`", names.__doc__)
    every = {name for table in names.TABLES for name in names.cells_of_table(table)}
    assert examples and every >= set(examples)


def test_pairs_of_components_are_cells_without_printed_numbers():
    """Section 5.2 of S, on three data sets and both bases."""
    lines = table_file()["main"](["cps_pairs"]).splitlines()
    assert len(lines) == 18 and all(x.endswith("  # not printed") for x in lines)
    made = names.configuration("cps_pairs", "cifar10-fedtgp-ppa-cpkd").method
    assert (made.base, made.scaling, made.distill) == ("fedtgp", "sum", "cpkd")
    assert (made.masks, made.lam) == ("none", 10.0)


def test_a_whole_table_is_commands_that_a_shell_reads():
    given = ["protonorm5:reading=paper", "--all", "--seeds=0,3"]
    text = table_file()["main"]([*given, "--config.data.data_dir=a b"])
    words = [shlex.split(line, comments=True) for line in text.splitlines()]
    cells_ = names.cells_of_table("protonorm5")
    assert len(words) == 2 * len(cells_) == len({w[4] for w in words})
    name = next(iter(cells_))
    assert words[0] == [
        "python",
        "main.py",
        f"--config=configs/table.py:protonorm5,{name}:reading=paper",
        "--config.seed=0",
        f"--workdir=runs/protonorm5-paper/{name}-0",
        "--config.data.data_dir=a b",
    ]
    assert [w[3] for w in words] == ["--config.seed=0"] * 20 + ["--config.seed=3"] * 20
    # Without --all it is a list, with printed numbers.
    assert table_file()["main"](["cps1"]).splitlines()[0] == (
        "python main.py --config=configs/table.py:cps1,cifar10-lg-fedavg  "
        "# 86.91 ± 0.14"
    )
    assert table_file()["main"]([]).split() == sorted(names.TABLES)


def test_what_no_table_can_be_made_of_is_named():
    main, cell = table_file()["main"], names.configuration
    cases = [
        (main, ["cps9"], "unknown table 'cps9'"),
        (main, ["cps1:code"], "'code' is no reading: write :reading="),
        (main, ["cps1:reading=cod"], "unknown reading 'cod'. Did you mean 'code'"),
        (main, ["cps1", "--config.rounds=3"], "'--config.rounds=3' is no argument; --"),
        (main, ["cps1", "--all", "--rounds=3"], "'--rounds=3' is no argument"),
        (main, ["cps1", "--all", "--seeds=0;1"], "'0;1' is no list of numbers"),
    ]

    def check(main, arguments, why):
        with refused(why):
            main(arguments)

    check_every(cases, check)
    with refused("unknown table 'cps9'"):
        names.cells_of_table("cps9")
    with refused("unknown cell of cps1 'cifar10-fedtpg'"):
        cell("cps1", "cifar10-fedtpg")
    with refused("'papr'. Did you mean 'paper'"):
        cell("cps1", "cifar10-fedtgp", "papr")

"""Comparison of runs: rows, notes, formats, the command."""

import csv
import dataclasses
import io
import itertools
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.every import check_every
from support.refusal import refused
from support.runs import ROOT
from support.workdirs import AS_PRINTED, cells_of, folder, made, record

import jaxproto
from jaxproto.lab import compare
from jaxproto.lab.cli import compare as command
from jaxproto.lab.compare import latex, run_groups
from jaxproto.methods import METHODS
from jaxproto.storage import records

RECORDS = Path(__file__).parents[3] / "results/fashion_mnist/records"
SHARE = "cifar10: share of test examples in their client's commonest training class: "
ONE_CLASS = {"pooled": 0.25, "client_mean": 0.2, "examples": 400}


def notes_of(table, start):
    return [note for note in table.notes if note.startswith(start)]


def test_seeds_share_a_row_with_mean_and_deviation(tmp_path):
    paths = [folder(tmp_path / f"{s}", seed=s, accuracy=0.5 + s / 10) for s in (0, 1)]
    table = made(*paths)
    assert len(table.rows) == 1
    assert cells_of(table)["head best %"] == "65.00 ± 5.00"
    assert cells_of(table)["head final %"] == "55.00 ± 5.00"
    assert table.notes[0].endswith("(ddof 0) of 2 seeds.")
    sample = made(*paths, ddof=1)
    assert cells_of(sample)["head final %"] == "55.00 ± 7.07"
    config = paths[1] / "config.json"  # as saved by hand
    config.write_text(config.read_text().replace('"lam": 10.0', '"lam": 10'))
    assert '"lam": 10,' in config.read_text()
    assert cells_of(made(*paths))["head final %"] == "55.00 ± 5.00"
    there = folder(tmp_path / "c", seed=2, data__name="tfds:cifar100")
    seeds = "Seeds: 0, 1 in cifar10; 2 in cifar100."
    assert seeds in made(*paths, there).notes
    few = dict.fromkeys(("best", "final", "mean_last"), 0.5) | {"last_n": 3}
    rules = {"rules": {"head": {"pooled": few, "client_mean": few}}}
    other = folder(tmp_path / "b", "fedtgp", seed=1, more=rules)
    table = made(*paths, other, statistics=["last10"])
    assert cells_of(table)["head %"] == "60.00 ± 5.00"
    assert "Seeds: 0, 1 in FedProto; 1 in FedTGP." in table.notes
    assert "Last evaluations: 10 in FedProto; 3 in FedTGP." in table.notes


def test_both_averages_have_columns(tmp_path, capsys):
    mean = {"final": 0.4, "best": 0.45, "mean_last": 0.4}
    rules = {"head": {"pooled": {**mean, "best": 0.65}, "client_mean": mean}}
    run = str(folder(tmp_path / "a", more={"rules": rules}))
    command.main("compare", [run])
    text = capsys.readouterr().out
    titles = ["best pooled %", "best mean %", "final pooled %", "final mean %"]
    places = [text.index(f"head {title}") for title in titles]
    assert places == sorted(places) and "45.0" in text and "65.0" in text
    command.main("compare", [run, "--average", "client"])  # one alone has no word
    text = capsys.readouterr().out
    assert "head best %" in text and "65.0" not in text and "45.0" in text


def test_unequal_rounds_have_columns_of_their_own(tmp_path):
    """No mark, rank, p or reference reaches from one to the other."""
    of_20, of_50 = {"fedproto": 0.5, "fedtgp": 0.4}, {"fedproto": 0.9, "local": 0.8}
    paths = [
        folder(tmp_path / f"{method}{rounds}", method, 0, accuracy, rounds=rounds)
        for rounds, of in {20: of_20, 50: of_50}.items()
        for method, accuracy in of.items()
    ]
    table = made(*paths, statistics=["final"], rank="all")
    short, long = "cifar10, 20 rounds head %", "cifar10, 50 rounds head %"
    got = [cells_of(table, name) for name in ("FedProto", "FedTGP")]
    assert [one[short] for one in got] == ["50.00", "40.00"]
    assert [one[long] for one in got] == ["90.00", "-"]
    assert got[1][f"{short} rank"] == "2.0"
    assert notes_of(table, "No run of local on cifar10, 20 rounds: what clients reach")
    assert not any("rounds differs" in note for note in table.notes)
    text = compare.render(made(*paths, statistics=["final"]), "markdown")
    longer, shorter = text.split("cifar10, 20 rounds\n\n")  # that of Local first
    assert "**90.00**" in longer and "FedTGP" not in longer and "50.00" not in longer
    assert "**50.00**" in shorter and "90.00" not in shorter
    few = folder(tmp_path / "few", "fedproto", rounds=50, data__clients=5)
    table = made(paths[0], few)  # another setting too: its values name the rows
    labels = [f"FedProto (data.clients={n})" for n in (20, 5)]
    assert [row[0] for row in table.rows] == labels
    assert notes_of(table, "data.clients differs: 20 in cifar10, 20 rounds; 5 in")


def test_a_longer_run_is_read_as_it_was_after_fewer_rounds(tmp_path, capsys):
    def by_client(at, hits):  # of two clients with 10 and 30 test examples
        mean = (hits[0] / 10 + hits[1] / 30) / 2
        rules = {"head": {"pooled": sum(hits) / 40, "client_mean": mean}}
        each = {"id": [0, 1], "test_examples": [10, 30], "correct_head": hits}
        return {"round": at, "rules": rules, "by_client": each}

    hits = {5: [9, 3], 10: [1, 27], 15: [10, 30]}
    spent = {"unit": "client", "delta": 1e-5}
    rows = [
        by_client(*item)
        | {"privacy": {**spent, "epsilon": item[0]}}
        | {"bytes_total": {"up": 80 * item[0] ** 2, "down": 0}}
        for item in hits.items()
    ]
    more = {"privacy": {**spent, "epsilon": 15}}
    fields = {"rounds": 15, "eval_every": 5, "more": more, "history": rows}
    long = folder(tmp_path / "long", **fields)
    short = folder(tmp_path / "short", "fedtgp", rounds=10, eval_every=5)
    cut = run_groups.until(compare.load(long), 10)
    groups = compare.group_by_seed([cut, compare.load(short)])
    got = cells_of(compare.table(groups, statistics=["best", "final", "client_best"]))
    assert got["head best pooled %"] == got["head final pooled %"] == "70.00"
    assert got["head best mean %"] == "50.00"
    assert got["head client_best pooled %"] == "90.00"  # (9 + 27) / 40
    assert (got["epsilon"], got["kB/round"]) == ("10.00", "0.8")
    early = folder(
        tmp_path / "early", status="stopped early", **fields | {"rounds": 50}
    )
    assert run_groups.until(compare.load(early), 20).config["rounds"] == 20
    command.main("compare", [str(long), str(short), "--rounds=10"])
    assert "rounds head" not in capsys.readouterr().out
    with refused("was not evaluated after 7 rounds: give --rounds a multiple of its"):
        run_groups.until(compare.load(long), 7)
    cosine = {"optimizer__schedule": "cosine", "rounds": 15}
    other = compare.load(folder(tmp_path / "cosine", history=rows, **cosine))
    with refused("its rounds depend on their number, 15"):
        run_groups.until(other, 10)
    theirs = other.config | {"method.name": "theirs"}  # a method that is not imported
    with refused("its rounds depend on their number, 15"):
        run_groups.until(dataclasses.replace(other, config=theirs), 10)


def test_a_run_on_nodes_has_a_row_beside_its_simulation(tmp_path):
    simulated, *deployed = (folder(tmp_path / name) for name in "abc")
    for path in deployed:
        (path / "nodes.json").write_text("{}")
    table = made(simulated, deployed[0])
    names = ["FedProto (clients=simulated)", "FedProto (clients=nodes)"]
    assert [row[0] for row in table.rows] == names
    assert len(notes_of(table, f"The clients of {names[1]} were nodes")) == 1
    with refused("same run"):
        made(*deployed)


def test_runs_of_different_settings_never_share_a_cell(tmp_path):
    a = folder(tmp_path / "a", rounds=5)
    table = made(a, folder(tmp_path / "b", seed=1, rounds=5, local__epochs=5))
    labels = [row[0] for row in table.rows]
    assert labels == ["FedProto (local.epochs=1)", "FedProto (local.epochs=5)"]
    assert any("local.epochs differs: 1 in" in note for note in table.notes)
    silent = {"data__data_dir": "elsewhere", "checkpoint_every": 1}  # of the numbers
    silent["eval__metrics"] = "auc"
    assert len(made(a, folder(tmp_path / "c", seed=1, rounds=5, **silent)).rows) == 1
    named = {"d": {"data__name": "npz:d/mine.npz", "accuracy": 0.1}}
    named["e"] = {"data__name": "npz:e/mine.npz", "accuracy": 0.9}
    mine = [folder(tmp_path / at, **fields) for at, fields in named.items()]
    assert [row[2] for row in made(*mine).rows] == ["10.00", "90.00"]
    table = made(a, folder(tmp_path / "f", data__name="tfds:cifar100", rounds=300))
    assert [row[0] for row in table.rows] == ["FedProto"]
    assert "rounds differs: 5 in cifar10; 300 in cifar100." in table.notes
    # Commit and reading come from the records.
    code = folder(tmp_path / "g", more={"commit": "aa", "reading": "code"})
    notes = made(code, folder(tmp_path / "h", "fedtgp", more={"commit": "bb"})).notes
    assert "reading differs: code in FedProto; unknown in FedTGP." in notes
    assert "commit differs: aa in FedProto; bb in FedTGP." in notes


def test_of_a_field_the_rows_that_are_unlike_most_are_listed(tmp_path):
    same = [folder(tmp_path / m, m) for m in ("local", "fedgh", "fedtgp", "fedavg")]
    own = folder(tmp_path / "own", wire__up="int8")
    line = "wire.up differs: {}."
    few = "float32 in Local (reference), FedGH, FedTGP, FedAvg; int8 in FedProto"
    assert line.format(few) in made(*same, own).notes
    more = folder(tmp_path / "more", "fml")
    assert (
        line.format("int8 in FedProto; float32 elsewhere")
        in made(*same, more, own).notes
    )


def test_methods_whose_fields_share_a_name_and_no_value_are_named(
    tmp_path, monkeypatch
):
    """Unless labels show the field, or papers differ in it."""

    def mine(spec, *, lam: float = 10.0):
        return METHODS["fedproto"](spec)

    monkeypatch.setitem(METHODS, "mine", mine)
    number = itertools.count()

    def run(method, **fields):
        return folder(tmp_path / f"{next(number)}", method, **fields)

    def notes(*paths):
        return notes_of(made(*paths), "cifar10: method.")

    low, high = (run("fedproto", method__lam=lam) for lam in (1.28, 10.0))
    own, less = run("mine"), run("mine", method__lam=1.28)
    line = "cifar10: method.lam differs: 1.28 in FedProto; 10.0 in {}."
    assert notes(low, own) == [line.format("mine")]
    assert notes(low, run("protonorm")) == [line.format("ProtoNorm")]
    monkeypatch.delitem(METHODS, "mine")  # a run whose file is not imported
    assert notes(low, own) == [line.format("mine")]
    assert notes(low, less) == notes(low, high) == notes(low, high, own, less) == []
    assert notes(low, high, own) == []  # a row of FedProto has that value
    assert notes(run("fedtgp"), run("fedgh")) == []  # epochs of the server, as printed
    assert notes(run("fedprox", method__mu=3.0), run("feddyn")) == []  # other meanings


def test_runs_of_one_block_whose_code_differs_are_named(tmp_path):
    paths = [folder(tmp_path / "abcd"[i], seed=i) for i in range(4)]
    other = folder(tmp_path / "e", data__name="tfds:cifar100")
    codes = [["1"], ["1"], ["2"], ["1", "2"], ["3"]]
    for path, digests in zip([*paths, other], codes, strict=True):
        history = [
            {"after_round": i, "sections": {"code": {"method 'mine'": digest}}}
            for i, digest in enumerate(digests)
        ]
        records.write_json(path / "provenance.json", {"history": history})
    a, b, c, d = paths
    assert not notes_of(made(a, b, other), "code differs")
    (note,) = notes_of(made(*paths), "cifar10: code differs")
    assert note == (
        f"cifar10: code differs: method 'mine' is 1 in {a}, {b}, {d}; 2 in {c}, {d}."
    )
    assert notes_of(made(d, other), "cifar10: code differs")
    rows = [row[0].partition("=")[0] for row in made(*paths).rows]
    assert rows == ["FedProto (code"] * 3  # a and b share one
    again = folder(tmp_path / "f")
    assert len(made(a, again).rows) == 2  # of one seed, before and after an edit


def test_unfinished_and_diverged_runs_are_named(tmp_path):
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


def test_references_and_collapsed_runs_are_named(tmp_path):
    """The share of one class is in the summary, else in `partition.csv`."""
    half = {"commonest_class": ONE_CLASS | {"pooled": 0.5}}
    drawn = [{"commonest_class": ONE_CLASS}, half]  # seeds with partitions of their own
    paths = [folder(tmp_path / f"{k}", seed=k, more=one) for k, one in enumerate(drawn)]
    mean = "37.50 %, mean over clients 20.00 % (mean over the partitions)."
    assert SHARE + mean in made(*paths).notes
    a, b = folder(tmp_path / "a"), folder(tmp_path / "b", "fedtgp", model__feat_dim=9)
    table = made(a, folder(tmp_path / "local", "local"))
    assert [row[0] for row in table.rows] == ["Local (reference)", "FedProto"]
    assert notes_of(table, "Reference: local")
    table = made(folder(tmp_path / "told", more={"commonest_class": ONE_CLASS}))
    assert SHARE + "25.00 %, mean over clients 20.00 %." in table.notes
    c = folder(tmp_path / "c", "fedgh", data__clients=3)
    (b / "partition.csv").write_text("c,s,0,1\n0,train,2,1\n0,test,3,1\n")
    here = "75.00 %, mean over clients 75.00 % in FedProto, FedTGP; unknown (no usable "
    assert notes_of(made(a, b, c), SHARE + here)
    # Records without the entry: the partition shows that TinyProto's head collapsed.
    old = compare.load(RECORDS / "tinyproto_paper-1").folder
    shutil.copytree(old, tmp_path / "old")
    right, size = 13_387, 17_507
    counts = f"0,train,2,1\n0,test,{right},{size - right}\n"
    (tmp_path / "old/partition.csv").write_text(f"client,split,0,1\n{counts}")
    rows = [tmp_path / "old", RECORDS / "tinyproto_paper-2"]
    line = "collapsed: head 0.7647 since round 30 (seed 1) is the share"
    assert any(line in note for note in made(*rows).notes)
    assert not any("collapsed" in note for note in made(rows[1]).notes)


def test_formats_for_readers_have_every_cell_and_note(tmp_path):
    table = made(folder(tmp_path / "a"), folder(tmp_path / "b", "fedtgp"))
    cells = [cell for row in table.rows for cell in row]
    for form in ("text", "markdown", "latex"):
        for turned in (False, True):  # methods are columns
            text = compare.render(table, form, transpose=turned)
            for part in (*cells, *table.notes):
                assert part in text or latex.escaped(part) in text, form


def test_csv_and_json_have_one_number_per_field(tmp_path):
    """Two seeds in a cell that a paper prints."""
    fields = [{"seed": s, "accuracy": 0.5 + s / 10} | AS_PRINTED for s in (0, 1)]
    table = made(*(folder(tmp_path / f"{k}", **one) for k, one in enumerate(fields)))
    text = compare.render(table, "csv")
    assert text.count("\r\n") == 2 and text.count("\n") == 2 and "±" not in text
    (row,) = csv.DictReader(io.StringIO(text, newline=""))
    assert (row["head final %"], row["head final % std"]) == ("55.0", "5.0")
    printed, mean = cells_of(table)["published %"], float(row["published %"])
    std = float(row["published % std"])
    assert printed.startswith(f"{mean:.2f} ± {std:.2f} (TinyProto, Table")
    json = compare.render(table, "json")
    assert '"head final % std": 5.0' in json and table.notes[0][:20] in json


def test_the_command_prints_or_writes_and_rejects_flags(tmp_path, capsys, monkeypatch):
    run = folder(tmp_path / "a", history=[record(1, 0.5)])
    out, bare = tmp_path / "table.md", folder(tmp_path / "bare", "fedtgp")
    command.main("compare", [str(run), "--format", "csv"])
    said, err = capsys.readouterr()  # notes of a csv go to the standard error
    assert said.startswith("method,") and "Accuracy in %" in err and "#" not in said
    command.main("compare", [str(run), "--format", "markdown", "--out", str(out)])
    assert str(out) in capsys.readouterr().out
    assert "| FedProto" in out.read_text()
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "40")  # of the terminal
    command.main("compare", [str(tmp_path), "--columns=metric"])  # a folder of runs
    text = capsys.readouterr().out  # split by columns, and whole
    assert max(len(line) for line in text.splitlines() if line[:1] in "│╭") <= 40
    cells = [cell for row in made(run, bare, columns=["metric"]).rows for cell in row]
    assert text.count("╭") > 1 and [cell for cell in cells if cell not in text] == []
    (empty := tmp_path / "empty").mkdir()
    flags = (
        (["--out", out], "exists already"),
        (["--format", "html"], "invalid choice: 'html'"),
        (["--out", tmp_path / "no/table.md"], "cannot write"),
        (["--siunitx"], "--siunitx is of --format=latex, and this is text."),
        (["--format=csv", "--transpose"], "csv has a row per method"),
        (["--target=nan"], "'nan' is not a number such as 90"),
        (["--target=900"], "--target=900 is no share"),
        (["--test=t"], "--test=t is the test of --against"),
        (["--against=fedavg"], "unknown row of --against 'fedavg'"),
        (["--metric=auc"], "no run has metric 'auc'"),
        (["--columns=acuracy"], "unknown kind of columns 'acuracy'"),
        (["--columns=bytes", "--ranks=all"], "add --columns=metric"),
        (["--out=new", "--tidy=new"], "--out and --tidy are both new"),
    )

    def check(arguments, why):
        with refused(why) as e:
            command.main("compare", [*map(str, arguments)])
        assert "\n" not in str(e.value)

    check_every([([run, *given], why) for given, why in flags], check)
    check([empty], "holds no config.json")
    check([bare, "--target=90"], "holds no metrics.jsonl")


def test_the_numbers_of_each_seed_are_a_tidy_csv(tmp_path, capsys):
    runs = [folder(tmp_path / f"{s}", "fedtgp", s, 0.5 + s / 10) for s in (0, 1)]
    out = tmp_path / "seeds.csv"
    command.main("compare", [*map(str, runs), "--tidy", str(out)])
    assert str(out) in capsys.readouterr().err
    with out.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 4  # runs, averages, statistics
    assert {row["rounds"] for row in rows} == {"300"}
    found = [r for r in rows if (r["seed"], r["average"]) == ("1", "pooled")]
    values = {r["statistic"]: r["value"] for r in found if r["label"] == "FedTGP"}
    assert values.pop("client_best") == ""  # records without clients
    found = {name: float(value) for name, value in values.items()}
    assert found == pytest.approx({"best": 0.7, "final": 0.6, "last10": 0.65})


def test_a_data_frame_has_the_numbers_of_the_csv_and_the_notes(tmp_path, capsys):
    runs = [folder(tmp_path / f"{s}", "fedtgp", s, 0.5 + s / 10) for s in (0, 1)]
    runs.append(folder(tmp_path / "gh", "fedgh", rounds=400))
    frame = jaxproto.compare(*runs[:2], averages=["pooled"])
    assert frame.index.name == "method" and [*frame.index] == ["FedTGP"]
    assert frame.loc["FedTGP", "head final %"] == 55.0
    assert frame.loc["FedTGP", "head final % std"] == 5.0
    assert frame.attrs["notes"] == made(*runs[:2]).notes
    frame = jaxproto.compare(tmp_path)  # a folder of them
    command.main("compare", [str(tmp_path), "--format=csv"])
    assert frame.to_csv(lineterminator="\r\n") == capsys.readouterr().out
    assert frame.loc["FedGH"].count() < frame.loc["FedGH"].size  # of another length
    by_seed = jaxproto.compare(tmp_path, by_seed=True)
    best = by_seed.query("average == 'pooled' and statistic == 'best'")
    want = {"FedTGP": 0.65, "FedGH": 0.6}
    assert best.groupby("label").value.mean().to_dict() == pytest.approx(want)
    with refused("holds no metrics.jsonl"):
        jaxproto.compare(tmp_path, rounds=1)


def test_pandas_is_loaded_by_a_comparison_alone():
    code = "import sys, jaxproto, jaxproto.lab.plugin, jaxproto.training.runner; "
    code += "print('pandas' in sys.modules)"
    run = [sys.executable, "-c", code]
    out = subprocess.run(run, cwd=ROOT, check=True, capture_output=True, text=True)
    assert out.stdout == "False\n"

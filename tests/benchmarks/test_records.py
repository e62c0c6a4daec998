"""Records of a series: the archive and its table."""

import csv
import itertools

import pytest
from support import workdirs
from support.refusal import refused
from support.runs import ROOT

from jaxproto.reporting import compare
from jaxproto.storage import records as files_
from jaxproto.storage.run_folder import run_folders
from results import records, series

LINE = {
    "round": 1,
    "rules": {"head": dict.fromkeys(files_.AVERAGES, 0.5)},
    "by_client": {"id": [0], "test_examples": [3], "correct_head": [2]},
    "bytes_by_client": {"up": [8], "down": [4]},
}


def run(path, method="fedproto", seed=0, **fields):
    """A work directory as it is recorded, with lists of clients."""
    given = {"history": [LINE], "data__data_dir": "here", **fields}
    work = workdirs.folder(path.with_name("work") / path.name, method, seed, **given)
    (work / "partition.csv").write_text("client,split,0,1\n0,train,2,1\n0,test,2,1\n")
    (work / "provenance.json").write_text('{"history": []}')
    series.keep(work, path, {"reading": "default", "commit": "aa"})
    return path


def made(root):
    cells = itertools.product(("fedtgp", "fedproto"), (1, 0))
    return [run(root / f"{method}-{seed}", method, seed) for method, seed in cells]


def files(folder):
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_what_is_added_comes_back_to_the_byte(tmp_path):
    old, there = made(tmp_path), tmp_path / "series/records"
    assert records.add(there, old) == [path.name for path in old]
    assert [p.name for p in run_folders(there)] == sorted(path.name for path in old)
    for path in old:
        before, after = compare.load(path), compare.load(there / path.name)
        assert len(files(before.folder)) == len(records.FILES)
        assert files(after.folder) == files(before.folder)
        assert after.config == before.config and after.summary == before.summary
        assert after.records == before.records


def test_equal_runs_give_equal_files_whatever_the_order(tmp_path):
    old, a, b = made(tmp_path), tmp_path / "a/records", tmp_path / "b/records"
    records.add(a, old)
    for path in reversed(old):
        assert records.add(b, [path]) == [path.name]
    assert records.add(b, old) == []
    assert files(a.parent) == files(b.parent)
    other = run(tmp_path / "x/local-0", "local")
    records.add(b, [other])
    records.remove(b, ["local-0"])
    assert files(a.parent) == files(b.parent)


def test_a_run_is_made_again_only_after_its_record_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(records, "RESULTS", tmp_path)
    old, again = run(tmp_path / "a/fedproto-0"), run(tmp_path / "b/fedproto-0", seed=3)
    there = tmp_path / "of/records"
    series.main(["add", "of", str(old)])
    with pytest.raises(SystemExit, match="series remove of fedproto-0"):
        series.main(["add", "of", str(again)])
    assert compare.load(there / "fedproto-0").config["seed"] == 0
    series.main(["remove", "of", "fedproto-0"])
    assert run_folders(there) == []
    series.main(["add", "of", str(again)])
    assert compare.load(there / "fedproto-0").config["seed"] == 3
    with refused("has no run fedtgp-0"):
        records.remove(there, ["fedtgp-0"])
    with refused("is no record of an ended run"):
        records.add(there, [tmp_path / "a/work/fedproto-0"])


def test_the_table_names_what_is_unlike_most_runs(tmp_path):
    old, there = made(tmp_path), tmp_path / "series/records"
    more = {"method__lam": 3.0, "data__alpha": 0.5}
    records.add(there, [*old, run(tmp_path / "other", "fedproto", 7, **more)])
    text = (there.parent / records.TABLE).read_text()
    rows = {row["name"]: row for row in csv.DictReader(text.splitlines())}
    assert [*rows] == sorted(rows)
    assert rows["other"]["settings"] == "data.alpha=0.5 method.lam=3.0"
    assert {rows[path.name]["settings"] for path in old} == {""}
    assert rows["other"]["best"] == "head 60.00 / 60.00"
    assert rows["other"]["seed"] == "7" and rows["other"]["kB per round"] == "1500.5"


def test_the_tables_in_the_repository_are_those_of_the_archives():
    for there in records.all_series():
        assert (there.parent / records.TABLE).read_text() == records.table(there)
    assert not [*(ROOT / "results").glob("*/records")], "add them to their series"

"""Series of runs: what is kept of a run, and that it is what the series says."""

import json
from pathlib import Path

import pytest
from support import workdirs
from support.every import check_every

from jaxproto import config
from jaxproto.config.fields import FOLLOW, fields_where
from jaxproto.reporting import compare
from jaxproto.storage.status import status_of
from results import queue, series
from results.cifar10 import run as cifar10
from results.cifar100 import run as cifar100
from results.fashion_mnist import run as fashion_mnist
from results.refprotofl_protocol import run as refprotofl_protocol

CONFIGS = Path(__file__).parents[2] / "configs"
RUNS = [("a-0", "protonorm.py", ["--config.seed=0"]), ("b-0", "fedproto.py", [])]


def finished(path, **more):
    """A work directory with what a record needs, and what it leaves out."""
    made = config.default()
    made.data.data_dir, made.data.name = "somewhere", "npz:/some/where/mine.npz"
    summary = {"status": "finished", "rounds": 200, "rules": {}}
    summary |= {"dataset": made.data.name} | more
    workdirs.write(path, made, summary, [{"round": 1}])
    (path / "indices.csv").write_text("0\n")


def test_finished_and_diverged_runs_are_recorded_once_without_folders_of_data(
    tmp_path, monkeypatch, capsys
):
    seen, records, out = [], tmp_path / "records", tmp_path / "out"

    def call(command):
        seen.append(command)
        (work,) = (Path(a[10:]) for a in command if a.startswith("--workdir="))
        if work.name == "a-0":
            finished(work)
        return int(work.name != "a-0")

    def make(*argv):
        with pytest.raises(SystemExit) as stop:
            series.make(RUNS, argv, records=records)
        return stop.value.code

    monkeypatch.setattr(series, "call", call)
    assert make(str(out), "data") == "failed: b-0"
    assert [c[2] for c in seen] == [f"--config=configs/{file}" for _, file, _ in RUNS]
    assert [p.name for p in records.iterdir()] == ["a-0"]
    files = ["config.json", "metrics.jsonl", "summary.json"]
    assert sorted(p.name for p in (records / "a-0").iterdir()) == files
    run = compare.load(records / "a-0")
    assert (run.summary["reading"], run.summary["commit"]) == (
        "default",
        series.commit(),
    )
    assert run.config["data.name"] == run.summary["dataset"] == "npz:mine.npz"
    assert run.config["data.data_dir"] == ""
    where = out / "b-0"
    finished(where, status="diverged", reason=f"see {where}/checkpoints")
    assert make(str(out), "data") == 0 and len(seen) == 3
    assert f"delete {records / 'a-0'}" in capsys.readouterr().out
    diverged = compare.load(records / "b-0").summary
    assert diverged["status"] == "diverged"
    assert diverged["reason"] == "see b-0/checkpoints"  # no path of the machine
    assert make("out") == series.USAGE
    assert series.reading("table.py:a,b:reading=code") == "code"
    assert series.reading("comparison.py:a,paper") == "paper"


def check_record(path, run):
    assert run, f"no run of the series is named {path.name}"
    wanted = config.flatten(config.load(f"{CONFIGS}/{run[0]}"))
    for flag in run[1]:
        field, _, value = flag.removeprefix("--config.").partition("=")
        wanted[field] = FOLLOW if value == "follow" else type(wanted[field])(value)
    got = compare.load(path)
    assert status_of(got.summary).ended
    for field in (got.config.keys() | wanted.keys()) - fields_where(compared=False):
        assert got.config[field] == wanted[field], field
    assert got.config["seed"] == wanted["seed"]
    saved = json.loads((path / "config.json").read_text())
    assert saved["data"]["data_dir"] == ""
    fields, own = saved["method"], config.method_fields(saved["method"]["name"])
    assert [*fields] == [field for field in own if field in fields]


def test_a_record_has_the_settings_that_its_series_gives_it():
    """Every record in the repository, and the run of its series."""
    cases = []
    for module in (fashion_mnist, refprotofl_protocol, cifar10, cifar100):
        runs = {name: rest for name, *rest in module.runs()}
        there = sorted((Path(module.__file__).parent / "records").glob("*"))
        assert there, module.__name__
        cases += [(path, runs.get(path.name)) for path in there]
    for of, (name, *rest) in queue.runs():
        path = queue.RESULTS / of / "records" / name
        cases += [(path, rest)] if path.exists() else []
    check_every(cases, check_record)

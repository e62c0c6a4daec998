"""Series of runs: what is kept of a run, and that it is what the series says."""

import json
from pathlib import Path

import pytest
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
SUMMARY = {"status": "finished", "rounds": 200, "rules": {}}
FILES = ("config.json", "metrics.jsonl", "summary.json")


def finished(path, data_dir="somewhere"):
    """A work directory with what a record needs, and what it leaves out."""
    made = config.default()
    made.data.data_dir = data_dir
    path.mkdir(parents=True)
    (path / "config.json").write_text(made.to_json())
    (path / "summary.json").write_text(json.dumps(SUMMARY))
    (path / "metrics.jsonl").write_text('{"round": 1}\n')
    (path / "indices.csv").write_text("0\n")
    return path


@pytest.fixture
def calls(monkeypatch):
    """Commands that a series would run; each leaves a finished work directory."""
    seen = []

    def call(command):
        seen.append(command)
        (work,) = (Path(a[10:]) for a in command if a.startswith("--workdir="))
        finished(work)
        return 0

    monkeypatch.setattr(series, "call", call)
    return seen


RUNS = [("a-0", "protonorm.py", ["--config.seed=0"]), ("b-0", "fedproto.py", [])]


def make(*argv, **options):
    with pytest.raises(SystemExit) as stop:
        series.make(RUNS, argv, **options)
    return stop.value.code


def test_a_finished_run_is_recorded_without_the_folder_of_its_data(tmp_path, calls):
    records = tmp_path / "records"
    assert make(str(tmp_path / "out"), "data", records=records) == 0
    assert [c[2] for c in calls] == [f"--config=configs/{file}" for _, file, _ in RUNS]
    assert sorted(p.name for p in (records / "a-0").iterdir()) == list(FILES)
    run = compare.load(records / "a-0")
    source = {"reading": "default", "commit": series.commit()}
    assert run.summary == SUMMARY | source
    assert run.config["data.data_dir"] == ""
    assert run.config == compare.load(tmp_path / "out" / "a-0").config | {
        "data.data_dir": ""
    }


def test_a_record_names_the_file_of_its_data_without_the_folder(tmp_path):
    work = finished(tmp_path / "work")
    made = json.loads((work / "config.json").read_text())
    made["data"]["name"] = "npz:/some/where/cifar100.npz"
    (work / "config.json").write_text(json.dumps(made))
    told = SUMMARY | {"dataset": made["data"]["name"]}
    (work / "summary.json").write_text(json.dumps(told))
    series.keep(work, tmp_path / "record", {})
    run = compare.load(tmp_path / "record")
    assert run.config["data.name"] == run.summary["dataset"] == "npz:cifar100.npz"


def test_a_recorded_run_is_not_made_again(tmp_path, calls, capsys):
    series.keep(finished(tmp_path / "done"), tmp_path / "a-0", {})
    assert make(str(tmp_path / "out"), "data", "-0", records=tmp_path) == 0
    assert len(calls) == 1 and "fedproto" in calls[0][2]
    assert f"delete {tmp_path / 'a-0'}" in capsys.readouterr().out


def test_a_failed_run_is_named_and_not_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr(series, "call", lambda command: 1)
    assert make(str(tmp_path / "out"), "data", "b", records=tmp_path) == "failed: b-0"
    assert not (tmp_path / "b-0").exists()


def test_a_run_that_diverged_is_recorded_as_that(tmp_path, monkeypatch):
    work = finished(tmp_path / "out/b-0")
    told = {"status": "diverged", "rules": {}, "rounds": 3}
    (work / "summary.json").write_text(json.dumps(told))
    monkeypatch.setattr(series, "call", lambda command: 1)
    assert make(str(tmp_path / "out"), "data", "b", records=tmp_path) == 0
    assert compare.load(tmp_path / "b-0").summary["status"] == "diverged"


def test_a_reading_is_what_the_name_of_a_configuration_ends_with():
    names = [
        "comparison.py:local",
        "table.py:a,b:reading=code",
        "comparison.py:a,paper",
    ]
    assert [series.reading(name) for name in names] == ["default", "code", "paper"]


def test_a_missing_folder_shows_the_usage():
    assert make("out") == series.USAGE


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


def test_a_record_has_the_settings_that_its_series_gives_it_in_their_order():
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

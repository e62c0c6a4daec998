"""Series and the queue of runs: what is kept of a run, also of a killed one."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import workdirs
from support.every import check_every
from support.processes import until
from support.runs import ROOT

from jaxproto import config
from jaxproto.config.fields import FOLLOW, fields_where
from jaxproto.lab import compare
from jaxproto.storage import records
from jaxproto.storage.run_folder import run_folders
from jaxproto.storage.status import status_of
from results import queue, series
from results import records as recorded
from results.ag_news import run as ag_news
from results.cifar10 import run as cifar10
from results.cifar100 import run as cifar100
from results.fashion_mnist import run as fashion_mnist
from results.refprotofl_protocol import run as refprotofl_protocol

RUNS = [("a-0", "protonorm.py", ["--config.seed=0"]), ("b-0", "fedproto.py", [])]


def finished(path, **more):
    made = config.default_config()
    made.data.data_dir, made.data.name = "somewhere", "npz:/some/where/mine.npz"
    summary = {"status": "finished", "rounds": made.rounds, "rules": {}}
    summary |= {"bytes_per_round": {"up": 0.0, "down": 0.0}}
    summary |= {"dataset": made.data.name} | more
    workdirs.write(path, made, summary, [{"round": 1}])
    (path / "indices.csv").write_text("0\n")


def test_finished_and_diverged_runs_are_recorded_once_without_folders_of_data(
    tmp_path, monkeypatch, capsys
):
    seen, kept, out = [], tmp_path / "a_series/records", tmp_path / "out"

    def call(command):
        seen.append(command)
        (work,) = (Path(a[10:]) for a in command if a.startswith("--workdir="))
        if work.name == "a-0":
            finished(work)
        return int(work.name != "a-0")

    def make(*argv):
        with pytest.raises(SystemExit) as stop:
            series.make(RUNS, argv, records=kept)
        return stop.value.code

    monkeypatch.setattr(series, "call", call)
    assert make(str(out), "data") == "failed: b-0"
    assert [c[2] for c in seen] == [f"--config=configs/{file}" for _, file, _ in RUNS]
    assert run_folders(kept) == [kept / "a-0"]
    run = compare.load(kept / "a-0")
    files = ["config.json", "metrics.jsonl", "summary.json"]
    assert sorted(p.name for p in run.folder.iterdir()) == files
    assert run.config["data.name"] == run.summary["dataset"] == "npz:mine.npz"
    assert run.config["data.data_dir"] == ""
    where = out / "b-0"
    finished(where, status="diverged", reason=f"see {where}/checkpoints")
    assert make(str(out), "data") == 0 and len(seen) == 3
    assert "results.series remove a_series a-0" in capsys.readouterr().out
    diverged = compare.load(kept / "b-0").summary
    assert diverged["status"] == "diverged"
    assert diverged["reason"] == "see b-0/checkpoints"  # no path of the machine
    assert series.reading("comparison.py:a,paper") == "paper"


def test_a_commit_is_marked_as_edited_for_code_and_not_for_records(
    tmp_path, monkeypatch
):
    code, folder = tmp_path / "main.py", tmp_path / "results/a"
    kept = [folder / "records.tar.xz", folder / "runs.csv"]
    for path in (code, *kept):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1")
    monkeypatch.setattr(series, "ROOT", tmp_path)
    assert series.commit() == "unknown"
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-qm", "first"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    head = series.commit()
    assert len(head) == 40
    for path in kept:
        path.unlink()
    assert series.commit() == head
    code.write_text("2")
    assert series.commit() == f"{head}-dirty"


def test_the_line_of_a_run_has_an_accuracy_of_zero_and_none(tmp_path):
    of = ("best", "final", "mean_last")
    averages = {"pooled": dict.fromkeys(of, 0.0), "client_mean": dict.fromkeys(of)}
    finished(tmp_path / "run", rules={"head": averages})
    assert "; head 0.00 / -" in queue.line("run", tmp_path / "run", 1.0)


def check_record(path, run):
    assert run, f"no run of the series is named {path.name}"
    wanted = config.flatten(config.load(f"{ROOT}/configs/{run[0]}"))
    for flag in run[1]:
        field, _, value = flag.removeprefix("--config.").partition("=")
        wanted[field] = FOLLOW if value == "follow" else type(wanted[field])(value)
    got = compare.load(path)
    assert status_of(got.summary).ended
    for field in (got.config.keys() | wanted.keys()) - fields_where(compared=False):
        assert got.config[field] == wanted[field], field
    assert got.config["seed"] == wanted["seed"]
    assert got.config["data.data_dir"] == ""


@pytest.mark.long
def test_a_record_has_the_settings_that_its_series_gives_it():
    """Every record in the repository, and the run of its series."""
    cases = []
    for module in (fashion_mnist, refprotofl_protocol, cifar10, cifar100, ag_news):
        runs = {name: rest for name, *rest in module.runs()}
        there = run_folders(Path(module.__file__).parent / recorded.FOLDER)
        assert there, module.__name__
        cases += [(path, runs.get(path.name)) for path in there]
    packed = {path for of in recorded.all_series() for path in run_folders(of)}
    for of, (name, *rest) in queue.runs():
        path = recorded.RESULTS / of / recorded.FOLDER / name
        cases += [(path, rest)] if path in packed else []
    check_every(cases, check_record)


ROUNDS = 50
SCRIPT = f"""
import pathlib, sys
from results import queue
queue.RESULTS = pathlib.Path(sys.argv.pop())
fields = "model.group=mlp data.clients=20"
cell = queue.Cell("of_test", "fedproto", "fedproto.py:digits", fields)
queue.cells = lambda: [cell]
queue.QUEUE = (queue.Part("digits", "of_test"), queue.Part("digits", "of_test"))
queue.FLAGS = {{"digits": ["--config.rounds={ROUNDS}", "--config.eval_every=1"]}}
sys.exit(queue.main(sys.argv[1:]))
"""


def start(tmp_path, *more):
    command = [sys.executable, "-c", SCRIPT, "out", "data", *more, "results"]
    path = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command, cwd=tmp_path, env=path, stdout=subprocess.PIPE, start_new_session=True
    )


@pytest.mark.long
def test_a_killed_queue_goes_on_where_it_was_and_records_each_run_once(tmp_path):
    work = tmp_path / "out/digits/fedproto-1"
    with start(tmp_path) as first:
        until(lambda: len(records.read(work / "metrics.jsonl")) >= 4, first)
        os.killpg(first.pid, signal.SIGKILL)
    assert 4 <= len(records.read(work / "metrics.jsonl")) < ROUNDS
    assert not (tmp_path / "results").exists()

    with start(tmp_path) as second:
        lines = second.communicate()[0].decode().splitlines()
    assert second.returncode == 0
    names = [line.split()[2] for line in lines]
    assert names == ["digits/fedproto-1"]
    assert "resum" in work.with_name("fedproto-1.log").read_text()
    found = compare.load(tmp_path / "results/digits/records/fedproto-1")
    assert found.summary["status"] == "finished"
    assert found.summary["reading"] == "default"
    assert found.summary["commit"] == series.commit()
    assert (found.config["seed"], found.config["data.seed"]) == (1, -1)
    with np.load(found.folder / "clients.npz") as file:
        tables = dict(file)
    assert list(tables["round"]) == list(range(1, ROUNDS + 1))
    assert list(tables["id"]) == list(range(20))
    hits, size_K = tables["correct_head"][-1], tables["test_examples"]
    told = found.last["rules"]["head"]
    np.testing.assert_allclose(hits.sum() / size_K.sum(), told["pooled"])
    np.testing.assert_allclose((hits / size_K).mean(), told["client_mean"])


@pytest.mark.long
def test_a_queue_whose_hours_are_over_ends_in_the_middle_of_a_run(tmp_path):
    with start(tmp_path, "--hours=0.0005") as queued:
        assert queued.communicate()[0] == b""
    assert queued.returncode == 0
    assert not (tmp_path / "results").exists()
    with start(tmp_path, "--left") as listed:
        assert listed.communicate()[0] == b"digits/fedproto-1\n"


@pytest.mark.long
def test_every_run_of_the_queue_can_be_configured_and_is_there_once():
    runs = [(of, *run) for of, run in queue.runs()]
    assert len({run[:2] for run in runs}) == len(runs)
    made = []

    def check(of, _, file, flags):
        fields = config.flatten(config.load(f"{ROOT}/configs/{file}"))
        given = dict(f.removeprefix("--config.").split("=") for f in flags)
        assert given.keys() <= fields.keys()
        fields |= given
        del fields["name"]
        made.append((of, *sorted((k, str(v)) for k, v in fields.items())))

    check_every(runs, check)
    assert len(set(made)) == len(made)

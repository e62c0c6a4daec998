"""`jaxproto.load`: what comes out of a run's folder is what the run had."""

import json
import shutil

import numpy as np
import pytest
from support import runs

import jaxproto
from jaxproto.errors import UserError
from jaxproto.lab.saved_runs import metrics_table, restore
from jaxproto.storage import checkpoint, workdir
from jaxproto.storage.run_folder import RunFolder

LAST = 5  # round


@pytest.fixture(scope="module")
def path(trained_runs):
    """Two architectures, and clients that sit rounds out; evaluated after 2, 4, 5."""
    return trained_runs("protonorm")


@pytest.fixture(scope="module")
def run(path):
    return jaxproto.load(path)


@pytest.fixture
def copy(trained_runs, tmp_path):
    """The folder as if its process had been killed before the summary."""
    folder = trained_runs("protonorm", tmp_path / "run")
    (folder / "summary.json").unlink()
    return folder


def test_a_run_says_what_it_is_and_has_its_records_without_compiling(path):
    with runs.compilations() as compiled:
        run = jaxproto.load(path)
        assert (run.status, run.rounds, run.round) == ("finished", LAST, LAST)
        assert run.path == path and run.notes == () and run.server
        assert run.config.method.name == "protonorm"
        assert run.partition.train.sum() + run.partition.test.sum() == 1797
        assert run.summary == json.loads((path / "summary.json").read_text())
        record = runs.records(path)[-1]
        assert len(run.metrics) == 3 * len(record["rules"])
        found = run.metrics.query("round == @LAST and rule == 'local'")
        (row,) = found.to_dict("records")
        assert {k: row[k] for k in record["rules"]["local"]} == record["rules"]["local"]
        assert row["loss"] == record["loss"] and row["bytes_up"] == record["bytes_up"]
        assert row["bytes_total_up"] == record["bytes_total"]["up"]
    assert not compiled


def test_other_metrics_have_columns():
    rules = {"head": {"pooled": 0.5}, "local": {"pooled": None}}
    more = {"head": {"f1": {"pooled": 0.25, "each": [1, 2]}}}
    table = metrics_table.metrics_table([{"round": 1, "rules": rules, "metrics": more}])
    assert [*table.columns] == ["round", "rule", "pooled", "f1_pooled"]
    np.testing.assert_array_equal(table["f1_pooled"], [0.25, np.nan])
    assert np.isnan(table["pooled"][1]) and table["round"].dtype == np.int64
    assert metrics_table.metrics_table([]).empty


def test_an_evaluation_is_that_of_the_record_to_the_last_digit(path, run):
    rules = runs.records(path)[-1]["rules"]
    assert run.evaluate() == rules
    for every in (range(4), np.arange(4)):
        assert run.evaluate("local", every) == {"local": rules["local"]}
    one = run.evaluate(["head"], clients=[2])["head"]
    assert one["pooled"] == one["client_min"] == run.clients[2].accuracies()["head"]
    assert run.evaluate(part="train").keys() == rules.keys()


def test_a_run_that_goes_on_is_left_alone_and_refreshing_finds_what_is_new(copy):
    lines = (copy / "metrics.jsonl").read_text().splitlines(keepends=True)
    (copy / "metrics.jsonl").write_text("".join(lines[:2]))
    newest, away = copy / "checkpoints" / str(LAST), copy.parent / "away"
    newest.rename(away)
    with workdir.lock_workdir(copy):
        before = runs.snapshot(copy)
        run = jaxproto.load(copy)
        assert run.status == "running" and run.rounds == run.round == LAST - 1
        old = [*run.clients]
        assert run.evaluate() == json.loads(lines[1])["rules"]
        assert runs.snapshot(copy) == before
    away.rename(newest)
    (copy / "metrics.jsonl").write_text("".join(lines))
    assert run.refresh() is run and run.rounds == run.round == LAST
    assert run.evaluate() == json.loads(lines[2])["rules"]
    x = old[0].data.test.x
    both = zip(old, run.clients, strict=True)
    assert any((a.scores(x) != b.scores(x)).any() for a, b in both)


def test_a_checkpoint_that_goes_while_it_is_read_is_read_anew(path, monkeypatch):
    run = RunFolder.read(path)
    config_ = restore.configuration(run)
    exp, real, seen = restore.experiment(run, config_), checkpoint.restore_latest, []

    def gone(*args):
        seen.append(1)
        if len(seen) == 1:
            monkeypatch.setattr(checkpoint, "rounds", lambda _: [LAST])
            raise FileNotFoundError
        return real(*args)

    monkeypatch.setattr(checkpoint, "rounds", lambda _: [LAST - 1])
    monkeypatch.setattr(checkpoint, "restore_latest", gone)
    assert restore.read_latest(run, config_, exp).round == LAST and len(seen) == 2


def test_a_diverged_run_has_its_last_checkpoint(path, copy):
    summary = json.loads((path / "summary.json").read_text())
    summary |= {"status": "diverged", "reason": "loss nan"}
    (copy / "summary.json").write_text(json.dumps(summary))
    run = jaxproto.load(copy)
    assert run.status == "diverged" and run.summary["reason"] == "loss nan"
    assert np.isfinite(run.clients[3].scores(run.clients[3].data.test.x)).all()


def test_damage_and_absence_are_told_in_one_line(trained_runs, tmp_path):
    def refused(match, use=lambda run: run, folder=None):
        with pytest.raises(UserError, match=match) as e:
            use(jaxproto.load(folder or copy))
        assert "\n" not in str(e.value)

    refused("does not exist", folder=tmp_path / "nothing")
    copy = trained_runs("protonorm", tmp_path / "run")
    (copy / "partition.csv").write_text("nonsense")
    refused("is no partition of a run", lambda run: run.partition)
    newest = copy / "checkpoints" / str(LAST) / "manifest.json"
    newest.write_text(newest.read_text()[:-9])
    run = jaxproto.load(copy)
    assert run.round == LAST - 1 and len(run.notes) == 1
    assert "is damaged" in run.notes[0]
    shutil.rmtree(copy / "checkpoints")
    refused("holds no checkpoint", lambda run: run.server)
    lines = (copy / "metrics.jsonl").read_text().splitlines()
    (copy / "metrics.jsonl").write_text(lines[0] + "\n")
    refused("has ended after 5 rounds, but not all of it is there")
    for name, text, match in (
        ("metrics.jsonl", "[]\n" + lines[1], "line 1 of .* is no record of a run"),
        ("summary.json", "{", "summary.json cannot be read"),
        ("config.json", "{", "config.json cannot be read"),
    ):
        (copy / name).write_text(text)
        refused(match)

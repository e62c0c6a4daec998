"""A run from outside: its files, its folder, and what is refused before it begins."""

import json
import shutil
from pathlib import Path
from typing import NamedTuple

import jax
import ml_collections
import numpy as np
import pytest
from support import runs
from support.refusal import refused
from support.runs import ROUNDS, run, snapshot, tiny

from jaxproto import config
from jaxproto.data import partition_stats
from jaxproto.errors import UserError
from jaxproto.storage import checkpoint
from jaxproto.storage import records as metrics
from jaxproto.training import loop
from jaxproto.training.engine import LocalEngine


class Finished(NamedTuple):
    path: Path
    summary: dict
    text: str
    compiled: list  # programs compiled so far, at each round's end and at the last


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run with kept momentum, BatchNorm, and participation by lot."""
    path, counts = tmp_path_factory.mktemp("run"), []

    def counting(real):
        def f(*args):
            result = real(*args)
            counts.append(len(compiled))
            return result

        return f

    with pytest.MonkeyPatch.context() as patch, runs.compilations() as compiled:
        patch.setattr(LocalEngine, "round", counting(LocalEngine.round))
        patch.setattr(loop, "_rounds", counting(loop._rounds))
        summary, text = run(tiny(), path)
    return Finished(path, summary, text, counts)


def test_a_run_that_diverges_before_an_evaluation_prints_no_empty_table(tmp_path):
    c = runs.small(optimizer__learning_rate=1e30)
    summary, text = run(c, tmp_path / "run")
    assert summary["status"] == "diverged" and f"diverged: {summary['reason']}" in text
    assert "test accuracy in %" not in text and "reference" not in text
    _, again = run(c, tmp_path / "run")
    assert "nothing to do" in again and "test accuracy in %" not in again


def test_a_run_leaves_its_configuration_and_checkpoints(finished):
    path = finished.path
    saved = json.loads((path / "config.json").read_text())
    assert config.flatten(saved) == config.flatten(tiny())
    assert checkpoint.rounds(path / "checkpoints") == [3, 4, 5]


def test_records_have_every_field_and_every_round_since_the_last(finished):
    rows = metrics.read(finished.path / "metrics.jsonl")
    assert [row["round"] for row in rows] == [2, 4, 5]  # and after the last round
    every = {"smallest_angle", "mean_angle", "alignment_iterations"}
    every |= {f"alignment_{k}" for k in ("energy_before", "energy_after", "force")}
    for row, rounds in zip(rows, (2, 2, 1), strict=True):
        assert row["loss"] > 0 and row["participants"] == 3
        assert set(row["rules"]) == {"head", "local", "global", "global_own"}
        assert set(row["every_round"]) == every
        for name, values in row["every_round"].items():
            assert len(values) == rounds and None not in values
            assert values[-1] == row[name]


def test_the_summary_has_every_field_and_digests_the_records(finished):
    summary = json.loads((finished.path / "summary.json").read_text())
    assert summary == metrics.to_json_values(finished.summary)
    assert summary["status"] == "finished" and summary["rounds"] == ROUNDS
    assert summary["collapsed"] == {}
    assert summary["seconds_per_round"] > 0 and summary["compile_seconds"] > 0
    assert summary["peak_memory_bytes"]["host"] > 1e8
    assert summary["versions"]["jax"] == jax.__version__
    rows = metrics.read(finished.path / "metrics.jsonl")
    assert summary["rules"] == metrics.rule_summary(rows)
    sent = {way: n / ROUNDS for way, n in rows[-1]["bytes_total"].items()}
    assert summary["bytes_per_round"] == sent  # of rounds without a record too


def test_a_record_has_the_correct_predictions_of_every_client(finished):
    """They determine both averages, and the best accuracy of each client."""
    rows = metrics.read(finished.path / "metrics.jsonl")
    counts = partition_stats.read_csv(finished.path / "partition.csv")
    size_K = counts.test.sum(1)
    for rule, kinds in finished.summary["rules"].items():
        told = [row["by_client"] for row in rows]
        assert all(x["id"] == [*range(len(size_K))] for x in told)
        assert all(x["test_examples"] == size_K.tolist() for x in told)
        hits_RK = np.array([x[f"correct_{rule}"] for x in told])
        for row, hits_K in zip(rows, hits_RK, strict=True):
            pooled, each_K = hits_K.sum() / size_K.sum(), hits_K / size_K
            by = {"mean": np.mean, "std": np.std, "min": np.min, "max": np.max}
            spread = {f"client_{name}": f(each_K) for name, f in by.items()}
            assert row["rules"][rule] == pytest.approx({"pooled": pooled, **spread})
        own_K = (hits_RK / size_K).max(0)
        assert kinds["client_mean"]["client_best"] == pytest.approx(own_K.mean())
        own = (own_K * size_K).sum() / size_K.sum()
        assert kinds["pooled"]["client_best"] == pytest.approx(own)


def test_nothing_is_compiled_after_the_first_round(finished):
    assert finished.compiled == [finished.compiled[0]] * (ROUNDS + 1) != [0] * 6
    assert "compiling " in finished.text


def test_a_finished_run_says_so_and_other_runs_are_refused_without_a_change(finished):
    path, before = finished.path, snapshot(finished.path)
    saved = ml_collections.ConfigDict(json.loads((path / "config.json").read_text()))
    summary, text = run(saved, path)
    assert f"{path} is finished: nothing to do." in text
    assert summary == json.loads((path / "summary.json").read_text())
    with pytest.raises(UserError, match="different configuration") as e:
        run(tiny(seed=3, optimizer__learning_rate=0.02), path)
    assert "\n  optimizer.learning_rate: 0.01 there, 0.02 here\n" in str(e.value)
    assert "\n  seed: 0 there, 3 here\n" in str(e.value)
    assert str(e.value).count(" there, ") == 2 and "--workdir" in str(e.value)
    with refused(f"rounds: {ROUNDS} there, 4 here"):
        run(tiny(rounds=4), path)
    assert snapshot(path) == before


def test_a_run_without_checkpoints_is_not_made_longer(finished, tmp_path):
    shutil.copytree(finished.path, tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "checkpoints")
    before = snapshot(tmp_path)
    with refused(f"after {ROUNDS} rounds and has no checkpoint"):
        run(tiny(rounds=6), tmp_path)
    assert snapshot(tmp_path) == before

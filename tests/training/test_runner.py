"""A run from outside: its files, its folder, and what is refused before it begins."""

import csv
import json
import shutil

import jax
import ml_collections
import numpy as np
import pytest
from matplotlib.figure import Figure
from rich.console import Console
from support import attacked, runs
from support.refusal import refused
from support.runs import ROUNDS, again, assert_same_end, records, run, snapshot, tiny

import jaxproto
from jaxproto import config
from jaxproto.data import partition_stats
from jaxproto.errors import UserError
from jaxproto.storage import checkpoint, workdir
from jaxproto.storage import records as metrics
from jaxproto.training import runner

finished = runs.finished


@pytest.fixture(scope="module", autouse=True)
def unrendered():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, to, **_: to.write(b"png"))
        yield


def test_a_run_leaves_its_configuration_partition_checkpoints_and_pictures(finished):
    path = finished.path
    saved = json.loads((path / "config.json").read_text())
    assert config.flatten(saved) == config.flatten(tiny())
    with (path / "partition.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == ["client", "split", *map(str, range(10))]
    pairs = [[str(k), split] for k in range(4) for split in ("train", "test")]
    assert [row[:2] for row in rows] == pairs
    assert sum(int(n) for row in rows for n in row[2:]) == 1797
    assert checkpoint.rounds(path / "checkpoints") == [3, 4, 5]
    r, state = runs.last_state(path, finished.state)
    assert r == ROUNDS
    assert jax.tree.structure(state) == jax.tree.structure(finished.state)
    drawn = "partition accuracy bytes angles local_prototypes heads iterations"
    names = {p.name for p in (path / "plots").iterdir()}
    assert names == {f"{n}.png" for n in (*drawn.split(), "global_prototypes")}


def test_records_have_every_field_and_every_round_since_the_last(finished):
    rows = metrics.read(finished.path / "metrics.jsonl")
    assert [row["round"] for row in rows] == [2, 4, 5]  # and after the last round
    every = {"smallest_angle", "mean_angle", "alignment_iterations"}
    every |= {f"alignment_{k}" for k in ("energy_before", "energy_after", "force")}
    for row, rounds in zip(rows, (2, 2, 1), strict=True):
        told = {"loss", "seconds", "scalars_up", "scalars_down"}
        assert told <= row.keys() and row["participants"] == 3
        assert set(row["rules"]) == {"head", "local", "global", "global_own"}
        for rule in row["rules"].values():
            spread = {"client_mean", "client_std", "client_min", "client_max"}
            assert set(rule) == {"pooled", *spread}
            assert 0 <= rule["client_min"] <= rule["client_mean"] <= rule["client_max"]
        assert set(row["every_round"]) == every
        for name, values in row["every_round"].items():
            assert len(values) == rounds and None not in values
            assert values[-1] == row[name]


def test_the_summary_has_every_field_and_digests_the_records(finished):
    summary = json.loads((finished.path / "summary.json").read_text())
    assert summary == metrics.to_json_values(finished.summary)
    told = {"status": "finished", "method": "protonorm", "dataset": "digits", "seed": 0}
    assert told.items() <= summary.items() and summary["rounds"] == ROUNDS
    assert summary["collapsed"] == {}
    assert set(summary["scalars_per_round"]) == {"nominal", "up", "down"}
    assert summary["seconds_per_round"] > 0 and summary["compile_seconds"] > 0
    assert summary["peak_memory_bytes"]["host"] > 1e8
    assert summary["versions"]["jax"] == jax.__version__
    rows = metrics.read(finished.path / "metrics.jsonl")
    assert summary["rules"] == metrics.rule_summary(rows)


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
            pooled, mean = hits_K.sum() / size_K.sum(), (hits_K / size_K).mean()
            assert row["rules"][rule]["pooled"] == pytest.approx(pooled)
            assert row["rules"][rule]["client_mean"] == pytest.approx(mean)
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
    lacking = tiny()
    del lacking.method.upscale
    with pytest.raises(UserError, match=r"method.upscale: [\d.]+ there, 'absent' here"):
        run(lacking, path)
    busy = pytest.raises(UserError, match=r"another process .* is running in")
    with workdir.lock_workdir(path), busy:
        run(tiny(), path)
    assert snapshot(path) == before
    run(tiny(), path)  # the lock is gone with its holder


def test_older_runs_have_new_fields_at_their_default_and_need_a_checkpoint_to_go_on(
    finished, tmp_path
):
    shutil.copytree(finished.path, tmp_path, dirs_exist_ok=True)
    fields = json.loads((tmp_path / "config.json").read_text())
    del fields["optimizer"]["schedule"], fields["method"]["alignment"]
    (tmp_path / "config.json").write_text(json.dumps(fields))
    shutil.rmtree(tmp_path / "checkpoints")
    before = snapshot(tmp_path)
    assert "is finished: nothing to do." in run(tiny(), tmp_path)[1]
    with refused("schedule: 'constant' there, 'cosine' here"):
        run(tiny(optimizer__schedule="cosine"), tmp_path)
    with refused(f"after {ROUNDS} rounds and has no checkpoint"):
        run(tiny(rounds=6), tmp_path)
    assert snapshot(tmp_path) == before


def test_a_damaged_checkpoint_is_passed_over_its_round_run_again(finished, tmp_path):
    """Its record is there: as after a kill between a record and its checkpoint."""
    runs.copy_of(finished, tmp_path)
    newest = (tmp_path / "checkpoints" / str(ROUNDS)).rglob("*")
    victim = max((p for p in newest if p.is_file()), key=lambda p: p.stat().st_size)
    victim.write_bytes(victim.read_bytes()[:-100] + bytes(100))
    text = again(finished, tmp_path)[1]
    assert "the checkpoint of round 5" in text and "is damaged" in text
    assert f"resuming {tmp_path} after round 4\n" in text
    assert_same_end(tmp_path, finished)


@pytest.mark.long
def test_what_is_refused_or_fails_in_compilation_does_not_block_the_corrected_run(
    finished, tmp_path, monkeypatch
):
    def fail(*_):
        raise MemoryError

    with refused("4 clients with at least 1000 examples"):
        run(tiny(data__min_size=1000), tmp_path)
    with monkeypatch.context() as patch, pytest.raises(MemoryError):
        patch.setattr(runner.compiler, "compile_all", fail)
        run(tiny(), tmp_path)
    assert not (tmp_path / "config.json").exists()
    again(finished, tmp_path)
    assert_same_end(tmp_path, finished)


@pytest.mark.long
def test_arrays_are_found_again_by_a_longer_and_a_moved_run_of_the_same_bits(tmp_path):
    """With Adam, decay, clipping, and two epochs in a fixed order."""
    y = np.arange(60) % 3
    x = np.random.default_rng(0).normal(size=(60, 5)) + 3 * np.eye(5)[y]
    x, quiet = x.astype(np.float32), Console(quiet=True)
    fields = {"model__group": "mlp", "data__min_size": 5, "local__epochs": 2}
    fields |= {"optimizer__name": "adam", "local__order": "fixed", "eval_every": 1}
    fields |= {"local__short": "skip", "optimizer__clip_norm": 1.0}
    c = runs.small(arg="digits", local__batch_size=5, **fields)
    data = x[:40].tolist(), y[:40], x[40:], y[40:]

    def train(name, rounds, data=data):
        c.rounds = rounds
        attacked.begins(c)
        return jaxproto.run(c, tmp_path / name, quiet, data=data)

    with attacked.quickly():
        straight = train("straight", 2)
        train("longer", 1)
        longer = train("longer", 2)
    assert longer["dataset"] == straight["dataset"] and c.data.name == "digits"
    assert longer["dataset"].startswith("npz:arrays-")
    rows = records(tmp_path / "longer")
    assert rows == records(tmp_path / "straight") and rows[0]["loss"] > rows[1]["loss"]
    (tmp_path / "longer").rename(tmp_path / "moved")
    mine, other = (jaxproto.load(tmp_path / name) for name in ("moved", "straight"))
    for one, two in zip(mine.clients, other.clients, strict=True):
        jax.tree.map(np.testing.assert_array_equal, one.params, two.params)
    found = [row for client in mine.clients for part in client.data for row in part.x]
    assert {row.tobytes() for row in found} <= {row.tobytes() for row in x}
    with refused("data has 3 parts; give (x, y) or"):
        train("refused", 1, data=(x, y, x))
    assert not (tmp_path / "refused").exists()

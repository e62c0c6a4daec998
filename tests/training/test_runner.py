"""A run from outside: its files, its folder, and what is refused before it begins."""

import csv
import io
import json
import re
import shutil

import jax
import ml_collections
import numpy as np
import pytest
from rich.console import Console
from support import runs
from support.runs import (
    ROOT,
    ROUNDS,
    assert_same_end,
    last_state,
    records,
    run,
    small,
    snapshot,
    tiny,
)

import jaxproto
from jaxproto import config
from jaxproto.data import partition_stats
from jaxproto.errors import UserError
from jaxproto.experiment import build
from jaxproto.reporting import compare
from jaxproto.storage import checkpoint, workdir
from jaxproto.storage import records as metrics
from jaxproto.summary import pictures
from jaxproto.training import programs, runner
from jaxproto.types import Protos

cache, finished = runs.cache, runs.finished
pytestmark = pytest.mark.usefixtures("cache")


# What a run writes


def test_config_json_is_the_configuration_and_can_be_run_again(finished):
    saved = json.loads((finished.path / "config.json").read_text())
    assert config.flatten(saved) == config.flatten(tiny())
    again = ml_collections.ConfigDict(saved)
    assert "nothing to do" in run(again, finished.path)[1]


def test_partition_csv_has_every_client_split_and_class(finished):
    with (finished.path / "partition.csv").open() as file:
        head, *rows = csv.reader(file)
    assert head == ["client", "split", *map(str, range(10))]
    assert [row[:2] for row in rows] == [
        [str(k), split] for k in range(4) for split in ("train", "test")
    ]
    assert sum(int(n) for row in rows for n in row[2:]) == 1797


def test_metrics_jsonl_has_one_object_per_evaluation_with_every_field(finished):
    lines = (finished.path / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 3
    for row in rows:
        assert {"round", "loss", "participants", "seconds"} <= row.keys()
        assert set(row["rules"]) == {"head", "local", "global", "global_own"}
        for rule in row["rules"].values():
            assert set(rule) == {
                "pooled",
                "client_mean",
                "client_std",
                "client_min",
                "client_max",
            }
            assert 0 <= rule["client_min"] <= rule["client_mean"] <= rule["client_max"]
        assert row["participants"] == 3
        assert 0 < row["scalars_up"] <= 3 * 10 * 64
        assert 0 < row["scalars_down"] <= 3 * 10 * 64


def test_every_round_since_the_last_record_stands_in_a_record(finished):
    rows = metrics.read(finished.path / "metrics.jsonl")
    for row, rounds in zip(rows, (2, 2, 1), strict=True):
        assert 10 < row["alignment_iterations"] <= 500
        assert row["alignment_energy_before"] > row["alignment_energy_after"]
        assert 0 < row["smallest_angle"] < row["mean_angle"] < 180
        for name, values in row["every_round"].items():
            assert len(values) == rounds and None not in values
            assert values[-1] == row[name]
    every = {"smallest_angle", "mean_angle", "alignment_iterations"}
    every |= {f"alignment_{k}" for k in ("energy_before", "energy_after", "force")}
    assert set(rows[0]["every_round"]) == every


def test_summary_json_has_every_field(finished):
    summary = json.loads((finished.path / "summary.json").read_text())
    assert summary == metrics.to_json_values(finished.summary)
    assert summary["status"] == "finished" and summary["method"] == "protonorm"
    assert summary["dataset"] == "digits" and summary["seed"] == 0
    assert summary["rounds"] == ROUNDS
    for kinds in summary["rules"].values():
        for kind in ("pooled", "client_mean"):
            told = {"best", "best_round", "final", "mean_last", "last_n"}
            assert set(kinds[kind]) == {*told, "client_best"}
    assert summary["collapsed"] == {}
    assert set(summary["scalars_per_round"]) == {"nominal", "up", "down"}
    assert summary["seconds_per_round"] > 0 and summary["compile_seconds"] > 0
    assert summary["peak_memory_bytes"]["host"] > 1e8
    assert summary["versions"]["jax"] == jax.__version__


def test_summary_digests_the_metrics(finished):
    rows = metrics.read(finished.path / "metrics.jsonl")
    pooled = [row["rules"]["local"]["pooled"] for row in rows]
    digest = finished.summary["rules"]["local"]["pooled"]
    assert digest["best"] == max(pooled) and digest["final"] == pooled[-1]
    assert digest["mean_last"] == pytest.approx(np.mean(pooled))
    assert digest["last_n"] == len(rows) == 3
    assert digest["best_round"] == rows[pooled.index(max(pooled))]["round"]


def test_a_record_has_the_correct_predictions_of_every_client(finished):
    """Of them are both averages, and the accuracy of each client at its best."""
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


def test_what_one_class_is_worth_is_in_the_summary_and_below_the_accuracies(finished):
    counts = partition_stats.read_csv(finished.path / "partition.csv")
    share = partition_stats.majority_share(counts)._asdict()
    assert finished.summary["commonest_class"] == share
    line = f"reference: {share['pooled']:.2%} is the share of test examples in their"
    assert finished.text.count(line) == 1
    assert finished.text.index(line) > finished.text.index("accuracy in %")


def test_checkpoints_of_the_last_rounds_are_there(finished):
    assert checkpoint.rounds(finished.path / "checkpoints") == [3, 4, 5]
    r, state = last_state(finished.path, finished.state)
    assert r == ROUNDS
    assert jax.tree.structure(state) == jax.tree.structure(finished.state)


def test_pictures_are_drawn_at_the_end(finished):
    pytest.importorskip("matplotlib")
    names = {p.name for p in (finished.path / "plots").iterdir()}
    always = {"partition.png", "accuracy.png", "bytes.png"}
    learnt = {"angles.png", "local_prototypes.png", "heads.png"}
    learnt |= {"global_prototypes.png", "iterations.png"}
    assert names == always | learnt


def test_evaluation_comes_every_so_many_rounds_and_after_the_last(finished):
    assert [row["round"] for row in records(finished.path)] == [2, 4, 5]


def test_nothing_is_compiled_after_the_first_round(finished):
    assert finished.compiled[0] > 0
    assert finished.compiled == [finished.compiled[0]] * (ROUNDS + 1)


def test_numbers_are_not_cut_where_there_are_80_columns(finished):
    assert "…" not in finished.text
    lines = finished.text.splitlines()
    assert sum(bool(re.match(r"round \d/5 .* left$", line)) for line in lines) == 3
    assert "cohort cnn4_d: clients" in finished.text


# The same folder again


def test_a_finished_run_says_so_and_changes_nothing(finished):
    before = snapshot(finished.path)
    summary, text = run(tiny(), finished.path)
    assert f"{finished.path} is finished: nothing to do." in text
    assert summary == json.loads((finished.path / "summary.json").read_text())
    assert snapshot(finished.path) == before


def test_a_different_configuration_is_refused_with_the_keys_and_both_values(finished):
    before = snapshot(finished.path)
    other = tiny(seed=3, optimizer__learning_rate=0.02)
    with pytest.raises(UserError, match="different configuration") as e:
        run(other, finished.path)
    assert "\n  optimizer.learning_rate: 0.01 there, 0.02 here\n" in str(e.value)
    assert "\n  seed: 0 there, 3 here\n" in str(e.value)
    assert str(e.value).count(" there, ") == 2 and "--workdir" in str(e.value)
    assert snapshot(finished.path) == before


def test_fields_that_an_older_version_did_not_have_count_at_their_default(
    finished, tmp_path
):
    path = shutil.copytree(finished.path, tmp_path / "old")
    fields = json.loads((path / "config.json").read_text())
    del fields["optimizer"]["schedule"], fields["method"]["alignment"]
    (path / "config.json").write_text(json.dumps(fields))
    assert "is finished: nothing to do." in run(tiny(), path)[1]
    with pytest.raises(UserError, match="schedule: 'constant' there, 'cosine' here"):
        run(tiny(optimizer__schedule="cosine"), path)


@pytest.mark.long
def test_a_finished_run_goes_on_with_more_rounds_to_the_same_bits(tmp_path):
    straight, longer = tmp_path / "straight", tmp_path / "longer"
    run(small(rounds=3), straight)
    run(small(rounds=2), longer)
    summary, text = run(small(rounds=3), longer)
    assert f"resuming {longer} after round 2" in text and summary["rounds"] == 3
    assert "cohort spiral_mlp" not in text  # the partition was shown before
    assert [r["round"] for r in records(longer)] == [2, 3]
    assert records(longer)[-1] == records(straight)[-1]
    assert json.loads((longer / "config.json").read_text())["rounds"] == 3
    with pytest.raises(UserError, match="rounds: 3 there, 2 here"):
        run(small(rounds=2), longer)


def test_a_record_without_its_checkpoint_is_made_again(tmp_path):
    """As after a kill between the record of a round and its checkpoint."""
    c = runs.small(rounds=2, eval_every=1, checkpoint_every=1)
    runs.run(c, tmp_path)
    before = (tmp_path / "metrics.jsonl").read_text()
    (tmp_path / "summary.json").unlink()
    shutil.rmtree(tmp_path / "checkpoints" / "2")
    runs.run(c, tmp_path)
    both = [
        [json.loads(line) | {"seconds": 0} for line in text.splitlines()]
        for text in (before, (tmp_path / "metrics.jsonl").read_text())
    ]
    assert both[0] == both[1] and len(both[0]) == 2


@pytest.mark.long
def test_a_run_is_not_made_longer_without_its_last_state(tmp_path):
    run(small(), tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    before = snapshot(tmp_path)
    with pytest.raises(UserError, match="after 1 rounds and has no checkpoint"):
        run(small(rounds=2), tmp_path)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize(
    "fields", [{"method": "fedkd"}, {"optimizer__schedule": "cosine"}]
)
def test_rounds_that_depend_on_their_number_are_not_added_to(tmp_path, fields):
    fields = {"arg": "digits", **fields} if "method" in fields else fields
    c = small(**fields)
    workdir.save_config(tmp_path, c)
    workdir.check_config(tmp_path, c)
    c.rounds = 2
    with pytest.raises(UserError, match="rounds: 1 there, 2 here"):
        workdir.check_config(tmp_path, c)


def test_a_field_that_only_one_of_them_has_is_named(finished):
    c = tiny()
    del c.method.upscale
    with pytest.raises(UserError, match=r"method.upscale: [\d.]+ there, 'absent' here"):
        run(c, finished.path)


def test_a_second_process_in_the_same_folder_is_refused(finished):
    before = snapshot(finished.path)
    with (
        workdir.lock_workdir(finished.path),
        pytest.raises(UserError, match=r"another process .* is running in"),
    ):
        run(tiny(), finished.path)
    assert snapshot(finished.path) == before
    run(tiny(), finished.path)  # the lock is gone with its holder


def test_an_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match=rf"cannot write .* {path}: .*--workdir"):
            run(tiny(), path)


@pytest.mark.parametrize("name", ["config.json", "summary.json"])
def test_a_damaged_json_file_is_named(finished, tmp_path, name):
    shutil.copy(finished.path / "config.json", tmp_path)
    (tmp_path / name).write_text('{"seed": ')
    with pytest.raises(UserError, match=rf"{tmp_path / name} cannot be read .* move"):
        run(tiny(), tmp_path)


# Before training


def test_a_refused_configuration_does_not_block_the_corrected_one(finished, tmp_path):
    impossible = tiny(data__min_size=1000)
    with pytest.raises(UserError, match="4 clients with at least 1000 examples"):
        run(impossible, tmp_path)
    assert not (tmp_path / "config.json").exists()
    run(tiny(), tmp_path)
    assert_same_end(tmp_path, finished)


def test_what_fails_in_compilation_does_not_block_the_corrected_one(
    tmp_path, monkeypatch
):
    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(runner.compiler, "compile_all", fail)
    with pytest.raises(MemoryError):
        run(small(), tmp_path)
    assert not (tmp_path / "config.json").exists()


# Other configurations


def test_a_notebook_call_on_ones_own_npz_file_with_adam(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    x = (rng.normal(size=(60, 5)) + 3 * np.eye(5)[y]).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x_train=x[:40], y_train=y[:40], x_test=x, y_test=y)
    monkeypatch.chdir(tmp_path)
    c = config.load(f"{ROOT}/configs/local.py")
    c.data.name = f"npz:{tmp_path / 'mine.npz'}"
    c.data.clients, c.data.min_size, c.model.group = 3, 10, "mlp"
    c.rounds, c.local.batch_size = 3, 5
    c.local.order, c.local.short = "fixed", "skip"
    c.optimizer.name, c.optimizer.learning_rate = "adam", 0.001
    summary = jaxproto.run(c, console=Console(file=io.StringIO()))
    assert summary["dataset"] == f"npz:{tmp_path / 'mine.npz'}"
    assert (tmp_path / "runs/local-mine-seed0/summary.json").exists()
    assert summary["rules"]["head"]["pooled"]["final"] > 0.8
    assert summary["scalars_per_round"] == {"nominal": 0, "up": 0.0, "down": 0.0}


def test_arrays_are_found_again_by_a_resumed_a_loaded_and_a_moved_run(tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    x = (rng.normal(size=(90, 5)) + 3 * np.eye(5)[y]).astype(np.float32)
    data = (x[:60].tolist(), y[:60], x[60:], y[60:])
    quiet = Console(quiet=True)
    c = runs.small(arg="digits", model__group="mlp", data__min_size=5)

    def train(name, **changes):
        c.update_from_flattened_dict(
            {k.replace("__", "."): v for k, v in changes.items()}
        )
        return jaxproto.run(c, tmp_path / name, quiet, data=data)

    names = {train(str(seed), seed=seed)["dataset"] for seed in (0, 1)}
    assert len(names) == 1 and c.data.name == "digits"
    with pytest.raises(UserError, match="clients"):
        train("refused", data__clients=1000)
    assert not (tmp_path / "refused").exists()
    (group,) = compare.group_by_seed(compare.load(tmp_path / f"{s}") for s in (0, 1))
    assert group.seeds == (0, 1) and group.dataset.startswith("arrays-")
    assert train("1", rounds=2, data__clients=3)["rounds"] == 2
    (tmp_path / "1").rename(tmp_path / "moved")
    mine = jaxproto.load(tmp_path / "moved")
    of_clients = [mine.clients[i].data for i in range(3)]
    found = np.concatenate([part.x for one in of_clients for part in one])
    assert {row.tobytes() for row in found} <= {row.tobytes() for row in x}
    with pytest.raises(UserError, match=r"data has 3 parts; give \(x, y\) or"):
        jaxproto.run(c, tmp_path / "other", quiet, data=(x, y, x))


@pytest.mark.long
def test_epochs_momentum_decay_and_clipping_run_together_and_are_finite(tmp_path):
    c = small(
        local__epochs=2,
        optimizer__momentum=0.9,
        optimizer__weight_decay=1e-3,
        optimizer__clip_norm=1.0,
        clients_at_once="2",
    )
    assert run(c, tmp_path)[0]["status"] == "finished"
    assert np.isfinite(records(tmp_path)[0]["loss"])


def test_pictures_show_prototypes_as_clients_are_pulled_to_them(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    seen = []
    monkeypatch.setattr(pictures.plots, "prototypes_2d", lambda *a: seen.append(a))
    monkeypatch.setattr(pictures.plots, "accuracy_over_rounds", lambda *a: None)
    c = small("protonorm", method__upscale=7.0)
    exp = build.experiment(c, "cpu")
    jitted = jax.tree.map(jax.jit, programs.build_programs(exp))
    state = programs.init(exp, 0, programs.with_floats(jitted, exp.floats))
    mean_CD = np.arange(12.0).reshape(6, 2)
    protos = Protos(mean_CD, np.ones(6))
    state = state._replace(server=state.server._replace(protos=protos))
    examples = build.examples(exp.dataset)
    trained = pictures.TrainedFederation(exp, examples, state.server, state.clients)
    pictures.draw_all(trained, tmp_path, Console(quiet=True))
    assert seen[0][0] == tmp_path / "plots" / "prototypes.png"
    assert np.array_equal(seen[0][1][0].global_CD, 7 * mean_CD)
    names = {p.name for p in (tmp_path / "plots").iterdir()}
    learnt = {"angles.png", "heads.png", "features.png"}
    assert names == {"partition.png", "global_prototypes.png"} | learnt

"""A run from outside: its files, its end, and that it is never lost.

One tiny run, `finished`, is what all others are compared with. It has all that a
checkpoint must hold: momentum kept over rounds, BatchNorm, participation by lot.
"""

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import jax
import ml_collections
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from rich.console import Console

import jaxproto
from jaxproto import (
    build,
    checkpoint,
    config,
    metrics,
    pictures,
    programs,
    runner,
    workdir,
)
from jaxproto.errors import UserError
from jaxproto.types import Protos

ROOT = Path(__file__).parents[1]
ROUNDS = 5
CACHE = {
    "jax_compilation_cache_dir": "",  # of the test session
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory):
    """A folder where compiled programs outlive this process, for those to be killed."""
    folder = str(tmp_path_factory.mktemp("compiled"))
    before = {name: getattr(jax.config, name) for name in CACHE}
    for name, value in {**CACHE, "jax_compilation_cache_dir": folder}.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()
    yield folder
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def tiny(**changes):
    """Four clients of two architectures; `changes` are flat fields, __ for a dot."""
    c = config.experiment("protonorm", "digits")
    fields = {
        "data.clients": 4,
        "data.alpha": 0.5,
        "model.group": "mlp,cnn4_d",
        "rounds": ROUNDS,
        "eval_every": 2,
        "checkpoint_every": 1,
        "optimizer.momentum": 0.5,
        "optimizer.learning_rate": 0.01,
        "local.optimizer_state": "keep",
        "participation.law": "uniform",
        "participation.fraction": 0.75,
        "participation.dropout": 0.25,
    }
    fields |= {k.replace("__", "."): v for k, v in changes.items()}
    c.update_from_flattened_dict(fields)
    return c


def small(method="local", arg="spiral", **changes):
    """Three clients of one perceptron, one round: compiles in a second or two."""
    c = config.experiment(method, arg)
    fields = {"data.clients": 3, "data.alpha": 1.0, "rounds": 1}
    fields |= {k.replace("__", "."): v for k, v in changes.items()}
    c.update_from_flattened_dict(fields)
    return c


def run(c, path):
    """Runs in a console of 80 columns; the summary and all that was printed."""
    console = Console(file=io.StringIO(), width=80)
    summary = jaxproto.run(c, path, console)
    return summary, console.file.getvalue()


def records(path):
    """`metrics.jsonl` without what the clock says."""
    rows = metrics.read(path / "metrics.jsonl")
    for row in rows:
        assert row.pop("seconds") > 0
    return rows


def last_state(path, like):
    """Round and state of the newest checkpoint."""
    found = checkpoint.latest(path / "checkpoints", like)
    assert not found.notes
    return found.round, found.state


def snapshot(path):
    """Every file and folder with its time of change, and its bytes."""
    return {
        str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else None)
        for p in sorted([path, *path.rglob("*")])
    }


class Finished(NamedTuple):
    """The run that was never interrupted."""

    path: Path
    summary: dict
    text: str
    state: programs.State  # after the last round
    programs: programs.Programs
    compiled: list  # programs compiled so far, at each round's end and at the last


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    path, events, states, made, counts = (
        tmp_path_factory.mktemp("run"),
        [],
        [],
        [],
        [],
    )

    def after(target, name, look):
        real = getattr(target, name)

        def f(*args):
            result = real(*args)
            look(result, *args)
            return result

        patch.setattr(target, name, f)

    def count(*_):
        counts.append(events.count("/jax/core/compile/backend_compile_duration"))

    def hear(event, seconds, **_):
        events.append(event)

    jax.monitoring.register_event_duration_secs_listener(hear)
    with pytest.MonkeyPatch.context() as patch:
        after(runner.programs, "compile_all", lambda result, *_: made.append(result))
        after(runner, "one_round", count)
        after(runner.checkpoint, "save", lambda _, *a: states.append(a[2]))
        after(runner, "all_rounds", count)
        summary, text = run(tiny(), path)
    jax.monitoring.unregister_event_duration_listener(hear)
    return Finished(path, summary, text, jax.device_get(states[-1]), made[0][0], counts)


def again(finished, path):
    """The same command, with the programs that the first one compiled."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner.programs, "compile_all", lambda *_: (finished.programs, 1))
        return run(tiny(), path)


def assert_same_end(path, finished):
    """Metrics and final state equal the uninterrupted run's, bit for bit."""
    assert records(path) == records(finished.path)
    r, state = last_state(path, finished.state)
    assert r == ROUNDS
    pairs = zip(jax.tree.leaves(state), jax.tree.leaves(finished.state), strict=True)
    for a, b in pairs:
        assert a.dtype == b.dtype and a.tobytes() == b.tobytes()
    for name in ("config.json", "partition.csv"):
        assert (path / name).read_bytes() == (finished.path / name).read_bytes()
    summary = json.loads((path / "summary.json").read_text())
    for key in ("status", "rounds", "rules", "scalars_per_round", "smallest_angle"):
        assert summary[key] == finished.summary[key]


def copy_of(finished, path):
    """The finished folder as if its process had been killed before the summary."""
    shutil.copytree(finished.path, path, dirs_exist_ok=True)
    (path / "summary.json").unlink()


# What a run writes


def test_config_json_is_the_configuration_and_can_be_run_again(finished):
    saved = json.loads((finished.path / "config.json").read_text())
    assert config.flat(saved) == config.flat(tiny())
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


def test_summary_json_has_every_field(finished):
    summary = json.loads((finished.path / "summary.json").read_text())
    assert summary == metrics.plain(finished.summary)
    assert summary["status"] == "finished" and summary["method"] == "protonorm"
    assert summary["dataset"] == "digits" and summary["seed"] == 0
    assert summary["rounds"] == ROUNDS
    for kinds in summary["rules"].values():
        for kind in ("pooled", "client_mean"):
            assert set(kinds[kind]) == {"best", "best_round", "final", "mean_last_10"}
    assert set(summary["scalars_per_round"]) == {"nominal", "up", "down"}
    assert summary["seconds_per_round"] > 0 and summary["compile_seconds"] > 0
    assert summary["peak_memory_bytes"]["host"] > 1e8
    assert summary["versions"]["jax"] == jax.__version__


def test_summary_digests_the_metrics(finished):
    rows = metrics.read(finished.path / "metrics.jsonl")
    pooled = [row["rules"]["local"]["pooled"] for row in rows]
    digest = finished.summary["rules"]["local"]["pooled"]
    assert digest["best"] == max(pooled) and digest["final"] == pooled[-1]
    assert digest["mean_last_10"] == pytest.approx(np.mean(pooled))
    assert digest["best_round"] == rows[pooled.index(max(pooled))]["round"]


def test_checkpoints_of_the_last_rounds_are_there(finished):
    assert checkpoint.rounds(finished.path / "checkpoints") == [3, 4, 5]
    r, state = last_state(finished.path, finished.state)
    assert r == ROUNDS
    assert jax.tree.structure(state) == jax.tree.structure(finished.state)


def test_pictures_are_drawn_at_the_end(finished):
    pytest.importorskip("matplotlib")
    names = {p.name for p in (finished.path / "plots").iterdir()}
    always = {"partition.png", "accuracy.png", "bytes.png"}
    learnt = {"angles.png", "cosine.png", "local_prototypes.png", "heads.png"}
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
    del fields["optimizer"]["schedule"], fields["method"]["lam"]
    (path / "config.json").write_text(json.dumps(fields))
    assert "is finished: nothing to do." in run(tiny(), path)[1]
    with pytest.raises(UserError, match="schedule: 'constant' there, 'cosine' here"):
        run(tiny(optimizer__schedule="cosine"), path)


def test_a_field_that_only_one_of_them_has_is_named(finished):
    c = tiny()
    del c.method.upscale
    with pytest.raises(UserError, match=r"method.upscale: [\d.]+ there, 'absent' here"):
        run(c, finished.path)


def test_a_second_process_in_the_same_folder_is_refused(finished):
    before = snapshot(finished.path)
    with (
        workdir.claim(finished.path),
        pytest.raises(UserError, match="another process is running in"),
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
    with pytest.raises(UserError, match=rf"{tmp_path / name} is damaged .* move"):
        run(tiny(), tmp_path)


# Never lost


class Stop(Exception):
    """Stands for whatever ends a process."""


def ctrl_c(save, *args):
    os.kill(os.getpid(), signal.SIGINT)
    return save(*args)  # goes on to its end


def torn(append, path, row):
    with path.open("ab") as file:
        file.write(json.dumps(row).encode()[:50])


def stops(patch):
    """Ways to end a run, one after the other, each a little later."""

    def once(target, name, when, before=lambda *a: None, error=Stop):
        real = getattr(target, name)

        def f(*args, **kwargs):
            if not when(*args):
                return real(*args, **kwargs)
            result = before(real, *args)
            if error:
                raise error
            return result

        patch.setattr(target, name, f)

    def at(r):
        return lambda *args: r in args

    def record(r):
        return lambda path, row: row["round"] == r

    def saves(r):
        return lambda folder, entries: folder.name == f"{r}.partial"

    yield lambda: once(runner.metrics, "append", record(2), torn)
    yield lambda: once(runner.metrics, "append", record(2), lambda f, *a: f(*a))
    yield lambda: once(checkpoint, "_write_manifest", saves(2), ctrl_c, error=None)
    yield lambda: once(runner, "one_round", at(2), error=KeyboardInterrupt)
    yield lambda: once(checkpoint, "_write_manifest", saves(3))
    yield lambda: once(checkpoint.shutil, "rmtree", lambda p: p.name == "1.partial")
    yield lambda: once(runner.checkpoint, "save", at(5), lambda f, *a: f(*a))
    yield lambda: once(runner.pictures, "draw", lambda *_: True)
    yield lambda: once(runner.metrics, "write_json", lambda p, _: "summary" in p.name)


def test_a_run_stopped_again_and_again_ends_as_if_never_stopped(finished, tmp_path):
    """Nine ends: in an evaluation, a round, a save, and after the last round."""
    resumed_after = []
    with pytest.MonkeyPatch.context() as patch:
        for arrange in stops(patch):
            arrange()
            with pytest.raises((Stop, KeyboardInterrupt)):
                again(finished, tmp_path)
            patch.undo()
            resumed_after.append(checkpoint.rounds(tmp_path / "checkpoints")[-1])
    assert resumed_after == [1, 1, 2, 2, 2, 4, 5, 5, 5]
    assert "after round 5" in again(finished, tmp_path)[1]
    assert_same_end(tmp_path, finished)


KILLED = """
import json, os, signal, sys
import ml_collections
import jaxproto
from jaxproto import checkpoint

file, path, moment = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

if moment == "before the manifest":  # of round 3: half a checkpoint
    write = checkpoint._write_manifest
    checkpoint._write_manifest = lambda folder, entries: (
        die() if folder.name == "3.partial" else write(folder, entries)
    )
with open(file) as f:
    jaxproto.run(ml_collections.ConfigDict(json.load(f)), path)
"""
MOMENTS = ["before the manifest", "from outside"]


@pytest.fixture(scope="module")
def killed(finished, cache, tmp_path_factory):
    """Folders of processes killed with SIGKILL, one per moment."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "driver.py").write_text(KILLED)
    names = {name.upper(): str(value) for name, value in CACHE.items()}
    env = {**os.environ, **names, "JAX_COMPILATION_CACHE_DIR": cache}
    env["PYTHONPATH"] = str(ROOT)
    processes = {}
    for moment in MOMENTS:
        arguments = [finished.path / "config.json", folder / moment, moment]
        command = [sys.executable, folder / "driver.py", *arguments]
        with (folder / f"{moment}.log").open("w") as log:
            processes[moment] = subprocess.Popen(
                command, env=env, stdout=log, stderr=log
            )
    metrics_file, deadline = folder / "from outside/metrics.jsonl", time.time() + 120
    while not (metrics_file.exists() and metrics_file.stat().st_size):
        assert time.time() < deadline
        time.sleep(0.002)
    processes["from outside"].kill()
    codes = {moment: p.wait(120) for moment, p in processes.items()}
    assert set(codes.values()) == {-signal.SIGKILL}, codes
    return folder


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_run_ends_as_if_never_killed(finished, killed, moment):
    path = killed / moment
    assert not (path / "summary.json").exists()
    again(finished, path)
    assert_same_end(path, finished)
    assert not list((path / "checkpoints").glob("*.partial"))


def test_a_damaged_checkpoint_is_passed_over_and_said_so(finished, tmp_path):
    copy_of(finished, tmp_path)
    newest = tmp_path / "checkpoints" / str(ROUNDS)
    victim = max((p for p in newest.rglob("*") if p.is_file()), key=os.path.getsize)
    victim.write_bytes(victim.read_bytes()[:-100] + bytes(100))
    text = again(finished, tmp_path)[1]
    assert "the checkpoint of round 5" in text and "is damaged" in text
    assert f"resuming {tmp_path} after round 4\n" in text
    assert_same_end(tmp_path, finished)


def test_with_every_checkpoint_damaged_nothing_is_deleted(finished, tmp_path):
    copy_of(finished, tmp_path)
    for manifest in tmp_path.glob("checkpoints/*/manifest.json"):
        manifest.write_text("{")
    before = {p for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(UserError, match=r"every checkpoint in .* is damaged"):
        again(finished, tmp_path)
    assert {p for p in tmp_path.rglob("*") if p.is_file()} == before
    assert records(tmp_path) == records(finished.path)


# Divergence


def poisoned(finished, path, client):
    """A run after round 4 in which the weights of one client are infinite."""
    copy_of(finished, path)
    shutil.rmtree(path / "checkpoints" / str(ROUNDS))
    state = jax.tree.map(np.array, last_state(path, finished.state)[1])
    (stacked,) = (c for c in state.clients if client in c.id)
    for leaf in jax.tree.leaves(stacked.params):
        leaf[stacked.id == client] = np.inf
    checkpoint.save(path / "checkpoints", ROUNDS - 1, state)


def test_divergence_names_round_cohort_and_client_and_keeps_the_checkpoint(
    finished, tmp_path
):
    poisoned(finished, tmp_path, client=2)
    summary, text = again(finished, tmp_path)
    assert summary["status"] == "diverged"
    assert "round 5: client 2 of cohort 'mlp' has loss nan" in summary["reason"]
    assert "checkpoint of round 4 stays in" in summary["reason"]
    assert f"diverged: {summary['reason']}" in text
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert checkpoint.rounds(tmp_path / "checkpoints") == [3, 4]
    assert [row["round"] for row in records(tmp_path)] == [2, 4]
    assert "is diverged: nothing to do" in again(finished, tmp_path)[1]


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

    monkeypatch.setattr(runner.programs, "compile_all", fail)
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
    state = programs.init(exp, seed=0)
    mean_CD = np.arange(12.0).reshape(6, 2)
    protos = Protos(mean_CD, np.ones(6))
    state = state._replace(server=state.server._replace(protos=protos))
    pool = build.pool(exp.source)
    work = SimpleNamespace(exp=exp, pool=pool)
    pictures.draw(SimpleNamespace(config=c, path=tmp_path, work=work), state)
    assert seen[0][0] == tmp_path / "plots" / "prototypes.png"
    assert np.array_equal(seen[0][1], 7 * mean_CD)
    names = {p.name for p in (tmp_path / "plots").iterdir()}
    learnt = {"angles.png", "cosine.png", "heads.png", "features_client2.png"}
    assert names == {"partition.png"} | learnt

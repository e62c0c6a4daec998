"""The benchmarks run, without PyTorch and at tiny sizes; nothing here is timed."""

import importlib
import json

import jax
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache

from benchmarks import measure, participants, soak

pytestmark = pytest.mark.long

SMALL = ("--pixels=8", "--classes=3", "--dim=8")
FEW = ("--clients=2", "--train=8", "--test=4")
CACHE = ("compilation_cache_dir", "enable_compilation_cache")
CACHE += ("persistent_cache_min_compile_time_secs",)


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the main of a benchmark in this process; returns what it wrote."""

    def here(module, function, arguments, **environment):
        compilation_cache.reset_cache()
        return getattr(importlib.import_module(module), function)(**arguments)

    def main(name, *flags):
        out = tmp_path / "results" / "out.json"
        module = importlib.import_module(f"benchmarks.{name}")
        module.main([name, f"--out={out}", *flags])
        return json.loads(out.read_text())

    monkeypatch.setattr(measure, "fresh", here)
    before = {f"jax_{n}": getattr(jax.config, f"jax_{n}") for n in CACHE}
    yield main
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_contenders_take_turns():
    order = []
    contenders = {name: lambda name=name: order.append(name) for name in "ab"}
    times = measure.alternate(contenders, repeats=3, fewer={"b": 1})
    assert "".join(order) == "ab" + "ab" + "a" + "a"
    assert [len(t.seconds) for t in times.values()] == [3, 1]


def test_a_fresh_process_returns_its_result_and_a_record_names_the_machine(run):
    assert measure.fresh("benchmarks.measure", "whole", {"texts": ["3"]}) == [3]
    record = run("alignment", "--classes=3", "--dims=4", "--repeats=2")
    assert record["machine"]["cores"] > 0 and record["machine"]["memory_bytes"] > 0
    starts = {r["start"]: r["steps"] for r in record["results"]}
    assert {*starts} == {"random", "nearly equal"} and min(starts.values()) > 0


def test_local_training_and_rounds_are_timed_beside_other_forms(run):
    flags = ("--networks=mlp", "--clients=2", "--steps=2", "--batch=4")
    options = ("--contenders=ours,naive,all:lax", "--repeats=1", *SMALL)
    rows = run("local_training", *flags, *options)["results"]["rows"]
    assert [r["contender"] for r in rows] == ["ours", "naive", "all:lax"]
    for row in rows:
        assert row["samples_per_second"] > 0 and row["times_naive"] > 0
        assert "times_torch" not in row and row["share_of_ceiling"] > 0
    options = ("--group=mlp", "--contenders=ours", "--batch=4", "--repeats=2")
    (row,) = run("round", *options, *SMALL, *FEW)["results"]
    assert {*row["parts"]} == {"train, prototypes, server", "evaluate"}
    assert row["times_ours"] == 1.0


def test_compilation_and_memory_are_told_by_stage_and_by_program(run):
    results = run("compile", "--group=mlp", *SMALL, *FEW)["results"]
    assert results["cold"]["programs"] > 0 and results["warm"]["programs"] > 0
    names = [r["program"] for r in results["each"]]
    steps = ("broadcast", "participate", "train mlp", "update", "evaluate mlp")
    assert names == [*steps, "diagnostics", "all"]
    options = ("--images=200", "--clients=2", "--alpha=10", "--most=8", *SMALL)
    results = run("memory", "--group=mlp", *options)["results"]
    peaks = [stage["host"] for stage in results["stages"].values()]
    assert peaks == sorted(peaks) and "checkpoint" in results["stages"]
    assert all(p["argument"] >= 0 for p in results["programs"])


def test_scaling_varies_one_size_at_a_time_and_data_sets_are_loaded_twice(
    run, tmp_path
):
    sizes = ("--clients=2,4", "--classes=3", "--dims=8", "--train=8", "--test=4")
    results = run("scaling", *sizes, "--rounds=1")["results"]
    assert [r["clients"] for r in results["clients"]["rows"]] == [2, 4]
    assert results["clients"]["exponents"]["bytes"] == pytest.approx(1.0)
    assert results["dims"]["exponents"]["bytes"] is None
    x, y = np.zeros((800, 8, 8), np.uint8), np.arange(800) % 10
    np.savez(tmp_path / "a.npz", x_train=x, y_train=y, x_test=x[:200], y_test=y[:200])
    name = f"npz:{tmp_path / 'a.npz'}"
    loads = run("loading", f"--names={name}", "--pixels=16")["results"][name]
    assert [load["examples"] for load in loads] == [1_000, 1_000]
    assert all(load["seconds"] > 0 for load in loads)
    assert all(load["bytes"] == 1_000 * 16 * 16 for load in loads)


def test_methods_are_told_beside_one_and_what_a_prototype_tells(run):
    options = ("--cells=fedproto,local", "--group=mlp", "--dim=60", "--repeats=1")
    results = run("methods", *options, *FEW, "--pixels=8", "--classes=3")["results"]
    assert [*results] == ["fedproto", "local"]
    assert results["local"]["bytes"]["network"] == 0
    proto = results["fedproto"]["bytes"]
    assert proto["state"] > results["local"]["bytes"]["state"]
    flags = ("--behind=1", "--seeds=1", "--rounds=2", "--steps=50")
    (row,) = run("inversion", *flags)["results"]
    assert row["own, AUC"] > 0.95 and row["own, public"] > row["public mean"]
    assert abs(row["other, AUC"] - 0.5) < 0.4


def test_every_form_of_an_operation_fits_and_is_timed_beside_the_fastest(run):
    cases = "--cases=grouped3x3_128,sums"
    small = ("--clients=2", "--batch=1", "--steps=1", "--repeats=1")
    rows = run("operations", cases, *small)["results"]
    assert len(rows) == 2 * (2 + 2)
    fastest = [r["case"] for r in rows if r["times_fastest"] == 1]
    assert {*fastest} == {r["case"] for r in rows}
    with pytest.raises(SystemExit, match="--cases=conv; they are conv5x5_1, "):
        run("operations", "--cases=conv")


@pytest.mark.parametrize("method, store", [("fedavg", "none"), ("fedproto", "disk")])
def test_rounds_over_registered_clients_have_the_participants_asked_for(method, store):
    given = f"--method={method} --store={store} --rounds=1 --train=12 --evaluated=4"
    s = measure.parse(participants.FLAGS, ["", *given.split()], "")
    told = participants.one(9, 3, s)
    assert told["registered"] == 9 and told["participants"] == 3
    assert told["store"] == store
    assert told["training"] > 0 and told["evaluation"] > 0
    assert 0 < told["device_bytes"] < told["peak_bytes"]


def test_a_resource_has_grown_if_the_last_quarter_exceeds_the_second():
    memory, files, threads = 2**30 * np.ones(80), np.full(80, 18), np.full(80, 3)
    memory[:20] /= 2  # until it settles
    files[60:] += 1
    seconds = rounds = np.arange(80)
    samples = np.stack([rounds, memory, files, threads, seconds], 1)
    assert soak.grown(samples.tolist()) == ["files"]
    samples[60:, 1] *= 1.03
    assert soak.grown(samples.tolist()) == ["memory", "files"]
    with pytest.raises(SystemExit, match="rounds"):
        measure.parse(soak.FLAGS, ["", "--rounds=60"], "")

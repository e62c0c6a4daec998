"""Sweeps beside single runs, and seconds and memory by number of federations.

    python -m benchmarks.sweep --part=runs
    python -m benchmarks.sweep --part=scaling
    python -m benchmarks.sweep --part=spiral

`runs` compares `main.py --sweep` with one process of `main.py` per cell. The cache is
emptied before each process (`cold`), empty at the beginning and then shared (`shared`),
or has every program (`warm`). `scaling` trains rounds of federations that differ in
seed and gamma in one process, in every form of execution. `spiral` is one sweep of
sixty cells.
"""

import itertools
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import numpy as np
from absl import flags

from benchmarks import measure, synthetic
from jaxproto import config as config_
from jaxproto.experiment import build, traced
from jaxproto.experiment.build import Experiment
from jaxproto.lab.sweeps.batched import BatchedEngine
from jaxproto.round.federation import Model
from jaxproto.training import compiler
from jaxproto.training.programs import Programs

FLAGS = measure.flag_values(
    config=("protonorm:digits", "configuration, for runs and scaling"),
    seeds=(["0", "1", "2"], "values of seed, for runs"),
    gammas=(["1", "10", "25", "50"], "values of method.upscale, for runs"),
    rounds=(0, "rounds of a cell; 0: those of the configuration"),
    states=(["cold", "shared", "warm"], "states of the cache, for runs"),
    sizes=(["1", "2", "4", "8", "16"], "federations, for scaling"),
    forms=(["one", "threads", "all"], "forms of execution, for scaling"),
    repeats=(5, "timed rounds, for scaling"),
    clients_at_once=("auto", "field of the configuration, for scaling"),
)
PARTS = ("runs", "scaling", "spiral")
flags.DEFINE_enum("part", "runs", PARTS, "what is measured", flag_values=FLAGS)


def command(s: dict, workdir: Path, *more: str) -> list[str]:
    """Returns the command of `main.py` on the configuration."""
    arguments = [f"--config={s['config']}", f"--workdir={workdir}", *more]
    arguments += [f"--config.rounds={s['rounds']}"] * bool(s["rounds"])
    return [sys.executable, "main.py", *arguments]


def process(arguments: list[str], cache: Path) -> float:
    """Runs a process with its caches in a folder; returns seconds."""
    clock = time.perf_counter()
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("JAX_COMP")},
        "XDG_CACHE_HOME": str(cache),
        "MPLBACKEND": "agg",
    }
    quiet = {"stdout": subprocess.DEVNULL, "cwd": measure.ROOT, "env": environment}
    subprocess.run(arguments, check=True, **quiet)
    return time.perf_counter() - clock


def cells(s: dict) -> list[tuple[str, str]]:
    """Returns seed and gamma of every run."""
    return list(itertools.product(s["seeds"], s["gammas"]))


def single(s: dict, folder: Path, cache: Path, empty: bool) -> list[float]:
    """Runs one process per cell, one after the other; returns their seconds."""
    seconds = []
    for seed, gamma in cells(s):
        if empty:
            shutil.rmtree(cache, ignore_errors=True)
        own = f"--config.seed={seed}", f"--config.method.upscale={gamma}"
        path = folder / f"{seed}-{gamma}"
        seconds.append(process(command(s, path, *own), cache))
    return seconds


def swept(s: dict, folder: Path, cache: Path) -> float:
    """Runs one process with all cells; returns its seconds."""
    axes = f"seed={','.join(s['seeds'])}", f"method.upscale={','.join(s['gammas'])}"
    return process(command(s, folder, *(f"--sweep={a}" for a in axes)), cache)


def runs(s: dict):
    """Compares a sweep with single runs, for every state of the cache."""
    rows, results = [], {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for state in s["states"]:
            own, shared = root / f"{state}-alone-cache", root / f"{state}-cache"
            if state == "warm":
                swept(s, root / "first", shared)
                shutil.copytree(shared, own)
            seconds = swept(s, root / f"{state}-sweep", shared)
            alone = single(s, root / f"{state}-alone", own, state == "cold")
            results[state] = {"sweep": seconds, "alone": alone}
            rows.append([state, len(alone), sum(alone), seconds, sum(alone) / seconds])
            print(f"{state}: done", flush=True)
    columns = ("cache", "cells", "one by one s", "sweep s", "times faster")
    return results, [measure.table("A sweep and its single runs", columns, rows)]


def federations(exp: Experiment, count: int, compiled) -> list[synthetic.Run]:
    """Starts federations that differ in seed and gamma."""
    started = []
    for i in range(count):
        floats = {**exp.floats, "method.upscale": np.float32(1 + i)}
        started.append(synthetic.Run(exp._replace(floats=floats), i, compiled=compiled))
    return started


def together(started: list[synthetic.Run], compiled: Programs) -> Callable[[], None]:
    """Returns a function that runs the next round of all federations as one program."""
    engine = BatchedEngine([run.work for run in started], compiled, len(started))
    models = [Model(run.state.server, run.state.clients) for run in started]
    model, numbers = engine.joined(models), itertools.count()

    def next_round():
        nonlocal model
        model, _ = engine.round(next(numbers), model)

    return next_round


def apart(started: list[synthetic.Run], threads: int) -> Callable[[], None]:
    """Returns a function that runs the next round of each federation, in threads."""
    pool = ThreadPoolExecutor(threads)

    def next_round():
        for task in [pool.submit(run.next_round) for run in started]:
            task.result()

    return next_round


def scaling(s: dict):
    """Measures seconds per round and federation, and bytes of the programs."""
    c = config_.load(s["config"])
    c.clients_at_once = s["clients_at_once"]
    exp = build.experiment(c, jax.default_backend())
    assert "method.upscale" in traced.traced_floats(c)
    examples, results, rows = build.examples(exp.dataset), {}, []
    one = compiler.compile_all(exp, examples)
    for size in measure.whole(s["sizes"]):
        for form in s["forms"]:
            (compiled, took), started = one, federations(exp, size, one)
            if form == "all":
                compiled, took = compiler.compile_all(exp, examples, many=size)
                run = together(started, compiled)
            else:
                run = apart(started, 1 if form == "one" else os.cpu_count())
            times = measure.timed(run, s["repeats"])
            need = compiler.required_bytes(jax.tree.leaves(compiled))
            need *= size if form == "threads" else 1
            mean = times.median / size
            result = {**times.record(), "bytes": need, "compile": took}
            results[f"{form} {size}"] = result
            rows.append([f"{size} {form}", times.median, mean, need / 2**20, took])
            print(f"{size} {form}: done", flush=True)
    columns = ("federations", "round s", "s per federation", "MiB", "compile s")
    return results, [measure.table("A round of federations", columns, rows)]


def spiral(s: dict):
    """Measures seconds and memory of a sweep of sixty cells of the spiral."""
    seeds = [str(seed) for seed in range(20)]
    s = {**s, "config": "protonorm:spiral", "seeds": seeds, "gammas": ["1", "10", "50"]}
    with tempfile.TemporaryDirectory() as folder:
        seconds = swept(s, Path(folder) / "sweep", Path(folder) / "cache")
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    count = len(cells(s))
    row = [f"{count} cells, empty cache", seconds, seconds / count, peak / 2**20]
    columns = ("sweep", "seconds", "a cell", "MiB of the process")
    results = {"cells": count, "seconds": seconds, "peak_bytes": peak}
    return results, [measure.table("The spiral, 20 seeds x 3 gammas", columns, [row])]


def main(argv):
    """Measures one part."""
    settings = measure.parse(FLAGS, argv, __doc__)
    part = settings["part"]
    measured = {"runs": runs, "scaling": scaling, "spiral": spiral}[part]
    results, tables = measured(settings)
    measure.finish(f"sweep-{part}", settings, results, tables)


if __name__ == "__main__":
    main(sys.argv)

"""Runs on eight virtual CPU devices, in a process of its own.

`python -m tests.support.on_devices FOLDER JSON`: cases {"method", "fields", "devices"}
by name. An entry of `devices` is what `--devices` gets, or a list of [rounds, devices]
that go on from one another; with `axes`, that of a sweep's second run. Prints JSON.
"""

import json
import os
import re
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = (
    os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=8"
)

import jax
import numpy as np
import pytest
from rich.console import Console

import jaxproto
from jaxproto import config
from jaxproto.storage import checkpoint, records
from jaxproto.training import compiler
from tests.support.fields import changed
from tests.support.quick import without_pictures

QUIET, STATES, PROGRAMS = Console(quiet=True), [], []
SMALL = {"data.clients": 10, "model.group": "mlp", "rounds": 4, "eval_every": 1}
WORDS = re.compile("all-gather|all-reduce|all-to-all|reduce-scatter|collective-permute")


def noting(into, at, function):
    """Wraps a function: argument `at`, or the result if None, is appended to `into`."""

    def noted(*args, **options):
        result = function(*args, **options)
        into.append(result if at is None else args[at])
        return result

    return noted


def settings(case):
    return changed(config.experiment(case["method"], "digits"), SMALL | case["fields"])


def trained(path, case, where):
    """Runs a case; returns its records without seconds, and its last state."""
    c = settings(case)
    for rounds, which in where if isinstance(where, list) else [[c.rounds, where]]:
        jaxproto.run(changed(c, rounds=rounds), path, QUIET, devices=which)
    rows = records.read(path / "metrics.jsonl")
    return [{k: v for k, v in r.items() if k != "seconds"} for r in rows], STATES[-1]


def compared(folder, case):
    """Compares runs with that on the first of `devices`; adds the last collectives."""
    each = enumerate(case["devices"])
    first, *others = (trained(folder / str(i), case, where) for i, where in each)
    differences = [
        {"same_records": rows == first[0], "state": difference(state, first[1])}
        for rows, state in others
    ]
    return {"differ": differences, "collectives": collectives(PROGRAMS[-1][0])}


def difference(a, b):
    """Returns the largest difference of two trees; None if their shapes differ.

    NaN in one alone is NaN, which Python's `max` passes over.
    """
    if jax.tree.map(np.shape, a) != jax.tree.map(np.shape, b):
        return None
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    both = ([np.asarray(x).astype(np.float64) for x in pair] for pair in pairs)
    each = [np.where(np.isnan(x) & np.isnan(y), 0, np.abs(x - y)) for x, y in both]
    return float(np.max([away.max(initial=0) for away in each]))


def collectives(programs):
    each = ((name, jax.tree.leaves(f)) for name, f in programs._asdict().items())
    texts = {name: " ".join(p.as_text() for p in leaves) for name, leaves in each}
    return {name: sorted({*WORDS.findall(text)}) for name, text in texts.items()}


def swept(folder, case):
    """Returns how far cells run one by one are from one program on several devices."""
    from jaxproto.lab import sweeps

    found = []
    several = sweeps.SweepOptions(devices=case["devices"])
    for i, how in enumerate((sweeps.SweepOptions("one"), several)):
        done = sweeps.sweep(settings(case), case["axes"], folder / str(i), QUIET, how)
        found.append([s["rules"] for s in done.summaries.values()])
    return difference(*found)


def main(folder, cases):
    checkpoint.save = noting(STATES, 2, checkpoint.save)
    compiler.compile_all = noting(PROGRAMS, None, compiler.compile_all)
    without_pictures(pytest.MonkeyPatch())
    found = {
        name: (swept if "axes" in case else compared)(Path(folder) / name, case)
        for name, case in json.loads(cases).items()
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

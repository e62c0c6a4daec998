"""Runs on eight virtual CPU devices, in a process of its own.

`python -m tests.support.on_devices FOLDER JSON`: what is to be compared in, what was
found out, both as JSON. A case is `{"method": ..., "fields": {...}, "devices": [...]}`;
an entry of `devices` is what `--devices` gets, or a list of `[rounds, devices]` that go
on from one another.
"""

import json
import os
import re
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"

import jax
import numpy as np
from rich.console import Console

import jaxproto
from jaxproto import config, mesh, sweeps
from jaxproto.experiment import build
from jaxproto.storage import checkpoint, records
from jaxproto.training import compiler, data_placement

QUIET, STATES = Console(quiet=True), []
SMALL = {"data.clients": 10, "model.group": "mlp", "rounds": 4, "eval_every": 1}


def keeping(save):
    def saving(directory, r, state, *rest):
        STATES.append(state)
        return save(directory, r, state, *rest)

    return saving


def trained(path, case, where):
    """Records, and the last state, of a run."""
    c = config.experiment(case["method"], "digits")
    c.update_from_flattened_dict(SMALL | case.get("fields", {}))
    parts = where if isinstance(where, list) else [[c.rounds, where]]
    for rounds, which in parts:
        c.rounds = rounds
        jaxproto.run(c, path, QUIET, devices=which)
    rows = records.read(path / "metrics.jsonl")
    told = [{k: v for k, v in row.items() if k != "seconds"} for row in rows]
    return told, STATES[-1]


def compared(folder, case):
    """What differs from the first entry of `devices`, for each of the others."""
    first, *others = (
        trained(folder / str(i), case, where) for i, where in enumerate(case["devices"])
    )
    return [
        {
            "same_records": told == first[0],
            "state": difference(state, first[1]),
            "rules": difference(*([r["rules"] for r in x] for x in (told, first[0]))),
        }
        for told, state in others
    ]


def difference(a, b):
    """Largest difference of any number; None where trees have other shapes."""
    if jax.tree.map(np.shape, a) != jax.tree.map(np.shape, b):
        return None
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    both = ([np.asarray(x).astype(np.float64) for x in pair] for pair in pairs)
    return max(float(np.abs(x - y).max(initial=0)) for x, y in both)


def collectives(case):
    """What devices say to each other in each program of a run, {name: words}."""
    c = config.experiment(case["method"], "digits")
    c.update_from_flattened_dict(SMALL | case.get("fields", {}))
    layout = mesh.parse_devices(case["devices"])
    exp = build.experiment(c, "cpu", layout=layout)
    made, _ = compiler.compile_all(exp, data_placement.place_data(exp).examples)
    words = re.compile(
        "all-gather|all-reduce|all-to-all|reduce-scatter|collective-permute"
    )
    return {
        name: sorted({*words.findall("".join(p.as_text() for p in jax.tree.leaves(f)))})
        for name, f in made._asdict().items()
    }


def swept(folder, case):
    """Records of the cells of a sweep, alone and as one program of several devices."""
    c = config.experiment(case["method"], "digits")
    c.update_from_flattened_dict(SMALL | case.get("fields", {}))
    found = []
    for i, how in enumerate(
        [sweeps.SweepOptions("one"), sweeps.SweepOptions(devices=case["devices"])]
    ):
        done = sweeps.sweep(c, case["axes"], folder / str(i), QUIET, how)
        found.append([s["rules"] for s in done.summaries.values()])
    return {"cells": len(found[0]), "rules": difference(*found)}


ASKED = {"collectives": lambda _, case: collectives(case), "sweep": swept}


def main(folder, asked):
    checkpoint.save = keeping(checkpoint.save)
    found = {
        name: ASKED.get(case.get("ask"), compared)(Path(folder) / name, case)
        for name, case in json.loads(asked).items()
    }
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])

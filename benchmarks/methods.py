"""Seconds and bytes of a round of every method, relative to one of them.

    python -m benchmarks.methods
    python -m benchmarks.methods --base=fedavg --cells=fedavg,fedprox,fednova

The cells of `configs/comparison.py` run on random images, with clients of equal size:
in turn, one round and an evaluation of each. Bytes are those of the state of server and
clients, of the largest program according to XLA, and of the messages of a round.
"""

import sys
from functools import partial

import jax

from benchmarks import measure, synthetic
from jaxproto import config

CELLS = (
    "fedproto,fedtgp,protonorm,tinyproto,tinyproto_ft,cps_ppa_cpkd,cps_ppa_cpkd_ft,"
    "refprotofl,local"
)
FLAGS = measure.flag_values(
    *("repeats", "classes"),
    cells=(CELLS.split(","), "cells of configs/comparison.py"),
    base=("fedproto", "cell to divide by"),
    group="cnn4_d",
    clients=20,
    train=160,
    test=48,
    pixels=28,
    dim=500,
)
SIZES = ("state", "program", "network")  # kinds of bytes


def contender(cell: str, s: dict) -> synthetic.Run:
    """Compiles the federation of one cell."""
    base = config.load(f"{measure.ROOT}/configs/comparison.py:{cell}")
    _, exp = synthetic.equal_clients(s, base, channels=1)
    run = synthetic.Run(exp)
    print(f"{cell}: compiled", flush=True)
    return run


def sizes(run: synthetic.Run) -> dict[str, int]:
    """Returns the bytes of state, largest program and messages after a round."""
    model = (run.state.server, run.state.clients)
    return {
        "state": sum(a.nbytes for a in jax.tree.leaves(model)),
        "program": run.required_bytes(),
        "network": run.seen.bytes_up + run.seen.bytes_down,
    }


def main(argv):
    """Times all cells in turn."""
    s = measure.parse(FLAGS, argv, __doc__)
    if s["base"] not in s["cells"]:
        sys.exit(f"error: --base={s['base']} is none of --cells.")
    runs = {cell: contender(cell, s) for cell in s["cells"]}
    timed = {c: partial(run.timed_round, "round") for c, run in runs.items()}
    times = measure.alternate(timed, s["repeats"])
    results = {c: {**times[c].record(), "bytes": sizes(r)} for c, r in runs.items()}
    measure.finish("methods", s, results, [view(results, s["base"])])


def view(results: dict, base: str):
    """Makes a table of seconds and bytes per cell, and their ratios to the base."""
    rows, of_base = [], results[base]
    for cell, r in results.items():
        row = [cell]
        for part in ("round", "evaluation"):
            row += [r["parts"][part], r["parts"][part] / of_base["parts"][part]]
        for kind in SIZES:
            row += [r["bytes"][kind] / 1e6, ratio(r, of_base, kind)]
        rows.append(row)
    columns = ["cell", "s / round", "x", "s / evaluation", "x"]
    columns += [name for kind in SIZES for name in (f"{kind} MB", "x")]
    return measure.table(f"Methods beside {base}, medians", columns, rows)


def ratio(result: dict, base: dict, kind: str) -> float | None:
    """Divides bytes of one kind by those of the base; None if the base has none."""
    of_base = base["bytes"][kind]
    return result["bytes"][kind] / of_base if of_base else None


if __name__ == "__main__":
    main(sys.argv)

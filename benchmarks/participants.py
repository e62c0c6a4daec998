"""Seconds and memory of a round over registered clients and over participants.

    python -m benchmarks.participants

The cost of a round should grow with its participants only. `registered` varies the
clients of the federation at a fixed number of participants, `participants` the reverse.
Each federation runs in its own process, whose peak memory is measured. Training
includes the server's step, and evaluation of a sample of clients is timed apart. Bytes
of the device are those of the largest program without the examples.
"""

import contextlib
import json
import sys
import tempfile
from pathlib import Path

from benchmarks import measure, synthetic
from benchmarks.peers import shared
from jaxproto import config as config_
from jaxproto.experiment import build

FLAGS = measure.flag_values(
    *("network", "rounds"),
    method=("fedavg", "method of every run"),
    registered=(["1000", "100", "10000", "100000"], "the first is the default"),
    participants=(["50", "10", "100", "400"], "the first is the default"),
    train=45,
    test=5,
    pixels=8,
    channels=(1, "channels of an image"),
    feat_dim=(64, "number of features"),
    batch=10,
    evaluated=(100, "clients to evaluate"),
    store=("auto", "clients.store"),
    only=("", "measure only REGISTERED,PARTICIPANTS, and print it"),
)

MEASURED = ("training", "evaluation", "device_bytes", "peak_bytes")


def experiment(registered: int, participants: int, s: dict) -> build.Experiment:
    """Builds a federation on random images."""
    base, share = config_.experiment(s["method"]), participants / registered
    base.update_from_flattened_dict(
        {
            "local.short": "skip",
            "participation.law": "uniform" if share < 1 else "all",
            "participation.fraction": share,
            "eval.clients": str(min(s["evaluated"], registered)),
            "clients.store": s["store"] if share < 1 else "device",
        }
    )
    sizes = {"clients": registered, "classes": 10, "dim": s["feat_dim"]}
    s = {**s, **sizes, "group": s["network"]}
    return synthetic.equal_clients(s, base, s["channels"])[1]


def one(registered: int, participants: int, s: dict) -> dict:
    """Returns medians over the rounds of one federation, in this process."""
    exp = experiment(registered, participants, s)
    with tempfile.TemporaryDirectory() as folder:
        run = synthetic.Run(exp, folder=Path(folder))
        with contextlib.closing(run.work.store):
            times = measure.timed(run.timed_round, s["rounds"]).record()["parts"]
    return {
        "registered": registered,
        "participants": participants,
        "store": exp.store,
        **times,
        # without the examples, whose number does not depend on the participants
        "device_bytes": run.required_bytes() - exp.dataset.x.nbytes,
        "peak_bytes": shared.peaks()[0],
        "compile": run.compile_seconds,
    }


def in_own_process(registered: int, participants: int, s: dict) -> dict:
    """Measures one federation in its own process."""
    sizes = {"registered": registered, "participants": participants}
    row = measure.fresh("benchmarks.participants", "one", {**sizes, "s": s})
    print(f"{registered} registered, {participants} a round: done", flush=True)
    return row


def main(argv):
    """Varies registered clients, then participants."""
    s = measure.parse(FLAGS, argv, __doc__)
    if s["only"]:
        print(json.dumps(one(*map(int, s["only"].split(",")), s)))
        return
    many, few = measure.whole(s["registered"]), measure.whole(s["participants"])
    sizes = {
        "registered": [(n, few[0]) for n in sorted(many) if n >= few[0]],
        "participants": [(many[0], n) for n in sorted(few) if n <= many[0]],
    }
    pairs = dict.fromkeys([*sizes["registered"], *sizes["participants"]])
    measured = {pair: in_own_process(*pair, s) for pair in pairs}
    results, tables = {}, []
    for factor, varied in sizes.items():
        rows = [measured[pair] for pair in varied]
        exponents = measure.exponents(rows, factor, MEASURED)
        results[factor] = {"rows": rows, "exponents": exponents}
        cells = [
            [str(r[factor]), r["store"], r["training"], r["evaluation"]]
            + [r[k] / 2**20 for k in ("device_bytes", "peak_bytes")]
            for r in rows
        ]
        cells.append(["exponent", "", *exponents.values()])
        columns = (factor, "store", "round s", "eval s", "device MiB", "process MiB")
        tables.append(measure.table(f"A round, {factor} varied", columns, cells))
    measure.finish(f"participants-{s['method']}-{s['network']}", s, results, tables)


if __name__ == "__main__":
    main(sys.argv)

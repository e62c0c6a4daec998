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
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import jax
from absl import flags

from benchmarks import measure, synthetic
from jaxproto import config as config_
from jaxproto.experiment import build
from jaxproto.training import compiler, rounds, run_evaluation

FLAGS = measure.flag_values()
flags.DEFINE_string("method", "fedavg", "method of every run", flag_values=FLAGS)
flags.DEFINE_string("network", "mlp", "network of all clients", flag_values=FLAGS)
flags.DEFINE_list(
    "registered", "1000,100,10000,100000", "first: default", flag_values=FLAGS
)
flags.DEFINE_list("participants", "50,10,100,400", "first: default", flag_values=FLAGS)
flags.DEFINE_integer("train", 45, "training examples per client", flag_values=FLAGS)
flags.DEFINE_integer("test", 5, "test examples per client", flag_values=FLAGS)
flags.DEFINE_integer("pixels", 8, "height and width", flag_values=FLAGS)
flags.DEFINE_integer("channels", 1, "channels of an image", flag_values=FLAGS)
flags.DEFINE_integer("feat_dim", 64, "number of features", flag_values=FLAGS)
flags.DEFINE_integer("batch", 10, "examples per step", flag_values=FLAGS)
flags.DEFINE_integer("rounds", 10, "timed rounds", flag_values=FLAGS)
flags.DEFINE_integer("evaluated", 100, "clients to evaluate", flag_values=FLAGS)
flags.DEFINE_string("store", "auto", "clients.store", flag_values=FLAGS)
flags.DEFINE_string("only", "", "REGISTERED,PARTICIPANTS", flag_values=FLAGS)

MEASURED = ("training", "evaluation", "device_bytes", "peak_bytes")


def experiment(registered: int, participants: int, s: dict) -> build.Experiment:
    """Builds a federation on random images."""
    each = s["train"] + s["test"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npz"
        shape = (s["pixels"], s["pixels"], s["channels"])
        synthetic.save(path, registered * each, shape, 10)
        c = config_.experiment(s["method"])
        share = participants / registered
        fields = {
            "data.name": f"npz:{path}",
            "data.clients": registered,
            "data.partition": "iid",
            "data.train_share": (s["train"] + 0.5) / each,  # the split rounds down
            "model.group": s["network"],
            "model.feat_dim": s["feat_dim"],
            "local.batch_size": s["batch"],
            "local.short": "skip",
            "participation.law": "uniform" if share < 1 else "all",
            "participation.fraction": share,
            "eval.clients": str(min(s["evaluated"], registered)),
            "clients.store": s["store"] if share < 1 else "device",
        }
        c.update_from_flattened_dict(fields)
        config_.check(c)
        return build.experiment(c, jax.default_backend())


def one(registered: int, participants: int, s: dict) -> dict:
    """Returns medians over the rounds of one federation, in this process."""
    exp = experiment(registered, participants, s)
    laps = []
    with tempfile.TemporaryDirectory() as folder:
        work, state, seconds = synthetic.start(exp, folder=Path(folder))
        need = compiler.required_bytes(f.func for f in jax.tree.leaves(work.compiled))
        need -= exp.dataset.x.nbytes  # the same for every number of participants
        with contextlib.closing(work.store):
            for r in range(s["rounds"] + 1):
                clock = measure.Clock()
                state, seen = rounds.next_state(work, r, state)
                clock.lap("training")
                run_evaluation.evaluate(work, r + 1, state, seen, [1.0])
                clock.lap("evaluation")
                laps.append(clock.parts)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "registered": registered,
        "participants": participants,
        "store": exp.store,
        **{k: statistics.median(lap[k] for lap in laps[1:]) for k in laps[0]},
        "device_bytes": need,
        "peak_bytes": peak,
        "compile": seconds,
    }


def in_own_process(registered: int, participants: int, settings: dict) -> dict:
    """Measures one federation in its own process."""
    given = [f"--{k}={v}" for k, v in settings.items() if k in PASSED]
    command = [sys.executable, "-m", "benchmarks.participants", *given]
    command += [f"--only={registered},{participants}"]
    done = subprocess.run(
        command, check=True, cwd=measure.ROOT, stdout=subprocess.PIPE, text=True
    )
    print(f"{registered} registered, {participants} a round: done", flush=True)
    return json.loads(done.stdout.splitlines()[-1])


PASSED = (  # flags that every process receives
    *("method", "network", "train", "test", "pixels", "channels", "feat_dim"),
    *("batch", "rounds", "evaluated", "store"),
)


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
    known = {pair: in_own_process(*pair, s) for pair in pairs}
    results, tables = {}, []
    for factor, varied in sizes.items():
        rows = [known[pair] for pair in varied]
        if len(rows) < 2:  # a single federation has no exponent
            continue
        grows = {
            k: measure.exponent([r[factor] for r in rows], [r[k] for r in rows])
            for k in MEASURED
        }
        results[factor] = {"rows": rows, "exponents": grows}
        cells = [
            [str(r[factor]), r["store"], r["training"], r["evaluation"]]
            + [r[k] / 2**20 for k in ("device_bytes", "peak_bytes")]
            for r in rows
        ]
        cells.append(["exponent", "", *grows.values()])
        columns = (factor, "store", "round s", "eval s", "device MiB", "process MiB")
        tables.append(measure.table(f"A round, {factor} varied", columns, cells))
    measure.finish(f"participants-{s['method']}-{s['network']}", s, results, tables)


if __name__ == "__main__":
    main(sys.argv)

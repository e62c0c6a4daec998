"""Seconds and bytes of a round of every method, relative to one of them.

    python -m benchmarks.methods
    python -m benchmarks.methods --base=fedavg --cells=fedavg,fedprox,fednova

The cells of `configs/comparison.py` run on random images, with clients of equal size:
in turn, one round and an evaluation of each. Bytes are those of the state of server and
clients, of the largest program according to XLA, and of the messages of a round.
"""

import sys
import tempfile
from pathlib import Path

import jax
from absl import flags

from benchmarks import measure, synthetic
from jaxproto import config
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.training import compiler, rounds, run_evaluation

FLAGS = measure.flag_values()
CELLS = (
    "fedproto,fedtgp,protonorm,tinyproto,tinyproto_ft,cps_ppa_cpkd,cps_ppa_cpkd_ft,"
    "refprotofl,local"
)
flags.DEFINE_list("cells", CELLS, "cells of configs/comparison.py", flag_values=FLAGS)
flags.DEFINE_string("base", "fedproto", "cell to divide by", flag_values=FLAGS)
flags.DEFINE_string("group", "cnn4_d", "group of networks", flag_values=FLAGS)
flags.DEFINE_integer("clients", 20, "number of clients", flag_values=FLAGS)
flags.DEFINE_integer("train", 160, "training examples per client", flag_values=FLAGS)
flags.DEFINE_integer("test", 48, "test examples per client", flag_values=FLAGS)
flags.DEFINE_integer("repeats", 5, "timed rounds", flag_values=FLAGS)
flags.DEFINE_integer("pixels", 28, "height and width", flag_values=FLAGS)
flags.DEFINE_integer("classes", 10, "number of classes K", flag_values=FLAGS)
flags.DEFINE_integer("dim", 500, "number of features d", flag_values=FLAGS)
SIZES = ("state", "program", "network")  # kinds of bytes


def experiment(cell: str, s: dict, path: Path) -> Experiment:
    """Builds the federation of one cell on the images in `path`."""
    each = s["train"] + s["test"]
    made = config.load(f"{measure.ROOT}/configs/comparison.py:{cell}")
    made.update_from_flattened_dict(
        {
            "data.name": f"npz:{path}",
            "data.clients": s["clients"],
            "data.partition": "iid",
            "data.train_share": (s["train"] + 0.5) / each,
            "model.group": s["group"],
            "model.feat_dim": s["dim"],
        }
    )
    config.check(made)
    return build.experiment(made, jax.default_backend())


def contender(cell: str, s: dict, path: Path):
    """Returns a function for a round and an evaluation, and one for the bytes."""
    work, state, _ = synthetic.start(experiment(cell, s, path))
    r, seen = 0, None

    def run():
        nonlocal state, seen, r
        clock = measure.Clock()
        state, seen = rounds.next_state(work, r, state)
        clock.lap("round")
        r += 1
        run_evaluation.evaluate(work, r, state, seen, [1.0])
        clock.lap("evaluation")
        return clock.parts

    def sizes():
        model = (state.server, state.clients)
        return {
            "state": sum(a.nbytes for a in jax.tree.leaves(model)),
            "program": compiler.required_bytes(
                f.func for f in jax.tree.leaves(work.compiled)
            ),
            "network": seen.bytes_up + seen.bytes_down,
        }

    return run, sizes


def main(argv):
    """Times all cells in turn."""
    s = measure.parse(FLAGS, argv, __doc__)
    if s["base"] not in s["cells"]:
        sys.exit(f"error: --base={s['base']} is none of --cells.")
    shape, made = (s["pixels"], s["pixels"], 1), {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images.npz"
        each = s["train"] + s["test"]
        synthetic.save(path, s["clients"] * each, shape, s["classes"])
        for cell in s["cells"]:
            made[cell] = contender(cell, s, path)
            print(f"{cell}: compiled", flush=True)
    times = measure.alternate({c: run for c, (run, _) in made.items()}, s["repeats"])
    results = {
        c: {**times[c].record(), "bytes": sizes()} for c, (_, sizes) in made.items()
    }
    measure.finish("methods", s, results, [view(results, s["base"])])


def view(results: dict, base: str):
    """Makes a table of seconds and bytes per cell, and their ratios to the base."""
    rows, one = [], results[base]
    for cell, r in results.items():
        row = [cell]
        for part in ("round", "evaluation"):
            row += [r["parts"][part], r["parts"][part] / one["parts"][part]]
        for kind in SIZES:
            row += [r["bytes"][kind] / 1e6, ratio(r, one, kind)]
        rows.append(row)
    columns = ["cell", "s / round", "x", "s / evaluation", "x"]
    columns += [name for kind in SIZES for name in (f"{kind} MB", "x")]
    return measure.table(f"Methods beside {base}, medians", columns, rows)


def ratio(result: dict, base: dict, kind: str) -> float | None:
    """Divides bytes of one kind by those of the base; None if the base has none."""
    below = base["bytes"][kind]
    return result["bytes"][kind] / below if below else None


if __name__ == "__main__":
    main(sys.argv)

"""Seconds of one whole ProtoNorm round, against the same round in PyTorch.

    python -m benchmarks.round

A round has training, the second pass for prototypes, aggregation and alignment, and
evaluation of every client on both parts. `ours` runs the programs of the runner and
evaluates every rule. `scripts` is the round of the released PyTorch scripts. `lean` is
efficient PyTorch, with models in memory and no loops over examples (torch_rounds.py).
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import numpy as np
from absl import flags

from benchmarks import measure, synthetic
from jaxproto import batches, models
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.training import programs, rounds, run_evaluation
from jaxproto.training.rounds import RoundEnvironment

FLAGS = measure.flag_values()
flags.DEFINE_string("group", "Ht0", "group of networks", flag_values=FLAGS)
flags.DEFINE_list("contenders", "ours,scripts,lean", "in this order", flag_values=FLAGS)
flags.DEFINE_integer("clients", 8, "number of clients", flag_values=FLAGS)
flags.DEFINE_integer("train", 320, "training examples per client", flag_values=FLAGS)
flags.DEFINE_integer("test", 96, "test examples per client", flag_values=FLAGS)
flags.DEFINE_integer("repeats", 5, "timed rounds", flag_values=FLAGS)
flags.DEFINE_integer("batch", 32, "examples per step", flag_values=FLAGS)
flags.DEFINE_integer("pixels", 32, "height and width", flag_values=FLAGS)
flags.DEFINE_integer("classes", 10, "number of classes K", flag_values=FLAGS)
flags.DEFINE_integer("dim", 512, "number of features d", flag_values=FLAGS)
flags.DEFINE_string("form", "auto", "value of clients_at_once", flag_values=FLAGS)


def experiment(s: dict) -> Experiment:
    """Builds the federation of the settings."""
    _, exp = synthetic.equal_clients(
        clients=s["clients"],
        train=s["train"],
        test=s["test"],
        shape=(s["pixels"], s["pixels"], 3),
        classes=s["classes"],
        model__group=s["group"],
        model__feat_dim=s["dim"],
        local__batch_size=s["batch"],
        clients_at_once=s["form"],
    )
    return exp


def ours(exp: Experiment) -> Callable[[], dict]:
    """Returns the runner's round, with evaluation on test and training parts."""
    work, state, _ = synthetic.start(exp)
    on_train = evaluation_of_training(work)
    r = 0

    def run():
        nonlocal state, r
        clock = measure.Clock()
        state, seen = rounds.next_state(work, r, state)
        r += 1
        clock.lap("train, prototypes, server")
        for each in (work, on_train):
            run_evaluation.evaluate(each, r, state, seen, [1.0])
        clock.lap("evaluate")
        return clock.parts

    return run


def evaluation_of_training(work: RoundEnvironment) -> RoundEnvironment:
    """Returns an environment that evaluates on the clients' training parts."""
    exp = work.exp
    run = programs.with_floats(programs.build_programs(exp), exp.floats)
    evaluate = tuple(jax.jit(f) for f in run.evaluate)  # compiles in the warm-up run
    compiled = work.compiled._replace(evaluate=evaluate)
    return work._replace(exp=exp._replace(test=exp.train), compiled=compiled)


def in_torch(exp: Experiment, s: dict, folder: Path) -> dict[str, Callable[[], dict]]:
    """Returns the rounds in PyTorch, on the images and networks of `exp`."""
    import torch

    from benchmarks import torch_loops, torch_rounds

    x = np.asarray(batches.normalise_inputs(exp.dataset.x)).transpose(0, 3, 1, 2)
    x, y = torch.tensor(x), torch.tensor(exp.dataset.y).long()
    parts = [
        torch_rounds.Part(*((x[rows], y[rows]) for rows in both))
        for both in zip(*exp.partition[:2], strict=True)
    ]
    names = models.assign_networks(build.network_names(s["group"]), range(s["clients"]))
    how = torch_loops.Hyper(*exp.spec, 0.01, 10.0, 100.0, s["batch"])
    nets = partial(torch_rounds.make_nets, names, exp.dataset.x.shape[1:], how)
    make = {
        "scripts": lambda: torch_rounds.scripts_round(folder, nets(), parts, how),
        "lean": lambda: torch_rounds.lean_round(nets(), parts, how),
    }
    return {name: make[name]() for name in s["contenders"] if name in make}


def contest(s: dict) -> dict[str, measure.Timing]:
    """Times all contenders in turn."""
    known = {"ours", "scripts", "lean"}
    if {*s["contenders"]} - known:
        sys.exit(f"error: --contenders must be of {', '.join(sorted(known))}.")
    exp, runs = experiment(s), {}
    if "ours" in s["contenders"]:
        runs["ours"] = ours(exp)
    with tempfile.TemporaryDirectory() as folder:
        if {*s["contenders"]} - {"ours"}:
            if measure.has_torch():
                runs |= in_torch(exp, s, Path(folder))
            else:
                print(measure.NO_TORCH)
        return measure.alternate(runs, s["repeats"])


def main(argv):
    """Measures the round."""
    settings = measure.parse(FLAGS, argv, __doc__)
    times = contest(settings)
    rows = [
        {
            "contender": name,
            "times_ours": measure.ratio(t, times["ours"]) if "ours" in times else None,
            **t.record(),
        }
        for name, t in times.items()
    ]
    parts = list(dict.fromkeys(p for r in rows for p in r["parts"]))
    columns = ("contender", "s / round", "min", "max", "x ours", *parts)
    keys = ("contender", "median", "min", "max", "times_ours")
    cells = [[*(r[k] for k in keys), *map(r["parts"].get, parts)] for r in rows]
    view = measure.table("One ProtoNorm round, medians in seconds", columns, cells)
    measure.finish("round", settings, rows, [view])


if __name__ == "__main__":
    main(sys.argv)

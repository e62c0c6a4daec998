"""Seconds of one whole ProtoNorm round, against the same round in PyTorch.

    python -m benchmarks.round

A round has training, the second pass for prototypes, aggregation and alignment, and
evaluation of every client on both parts. `ours` runs the programs of the runner and
evaluates every rule; `bfloat16` does so with `model.compute_dtype=bfloat16`, if it is
among the contenders. `scripts` is the round of the released PyTorch scripts. `lean` is
efficient PyTorch, with models in memory and no loops over examples (torch_rounds.py).
"""

import dataclasses
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import jax
import numpy as np

from benchmarks import measure, synthetic
from jaxproto import models
from jaxproto.core import batches
from jaxproto.experiment.build import Experiment
from jaxproto.training import programs
from jaxproto.training.engine import LocalEngine

FLAGS = measure.flag_values(
    *("group", "clients", "train", "test", "repeats", "batch"),
    *("pixels", "classes", "dim", "form"),
    contenders=(["ours", "scripts", "lean"], "in this order"),
)


def experiment(s: dict, dtype: str) -> Experiment:
    """Returns the experiment with a type of the operands of products."""
    base = synthetic.plain("protonorm", synthetic.AS_RELEASED)
    base.model.compute_dtype = dtype
    return synthetic.equal_clients(s, base)[1]


def ours(exp: Experiment) -> Callable[[], dict]:
    """Returns the runner's round, with evaluation on test and training parts."""
    run = synthetic.Run(exp)
    on_train = evaluation_of_training(run.work)

    def timed():
        clock = measure.Clock()
        run.next_round()
        clock.lap("train, prototypes, server")
        run.evaluate()
        run.evaluate(on_train)
        clock.lap("evaluate")
        return clock.parts

    return timed


def evaluation_of_training(work: LocalEngine) -> LocalEngine:
    """Returns an engine that evaluates on the clients' training parts."""
    exp = work.exp
    run = programs.with_floats(programs.build_programs(exp), exp.floats)
    evaluate = tuple(jax.jit(f) for f in run.evaluate)  # compiles in the warm-up run
    compiled = work.compiled._replace(evaluate=evaluate)
    on_train = exp._replace(test=exp.train)
    return dataclasses.replace(work, exp=on_train, compiled=compiled)


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
    names = models.assign_networks(s["group"], range(s["clients"]))
    hyper = torch_loops.Hyper(*exp.spec, 0.01, 10.0, 100.0, s["batch"])
    nets = partial(torch_rounds.make_nets, names, exp.dataset.x.shape[1:], hyper)
    make = {
        "scripts": lambda: torch_rounds.scripts_round(folder, nets(), parts, hyper),
        "lean": lambda: torch_rounds.lean_round(nets(), parts, hyper),
    }
    return {name: make[name]() for name in s["contenders"] if name in make}


def contest(s: dict) -> dict[str, measure.Timing]:
    """Times all contenders in turn."""
    measure.check_choices(s, "contenders", ("ours", "bfloat16", "scripts", "lean"))
    exp, runs = experiment(s, "float32"), {}
    if "ours" in s["contenders"]:
        runs["ours"] = ours(exp)
    if "bfloat16" in s["contenders"]:
        runs["bfloat16"] = ours(experiment(s, "bfloat16"))
    with tempfile.TemporaryDirectory() as folder:
        if {"scripts", "lean"} & {*s["contenders"]}:
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
            "times_ours": t.median / times["ours"].median if "ours" in times else None,
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

"""Peak memory of a run of the size of CIFAR-10, in a fresh process.

    python -m benchmarks.memory                  # 1 round of at most 320 examples
    python -m benchmarks.memory --most=0         # all examples, as in a real run

60,000 random images are divided among 20 clients by the papers' partition. Images,
states and programs have the sizes of a real run; `--most` only shortens the rounds. The
tables show the peak memory of the process at the end of every stage, including the
checkpoint, and the memory that XLA reserves for every program.
"""

import sys
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp

from benchmarks import measure, synthetic
from benchmarks.peers import shared
from jaxproto.core.types import Shard
from jaxproto.experiment import build
from jaxproto.experiment.build import Experiment
from jaxproto.storage import checkpoint, records
from jaxproto.training.engine import LocalEngine

FLAGS = measure.flag_values(
    *("group", "pixels", "classes", "dim", "form"),
    images=(60_000, "examples of the pool"),
    clients=20,
    rounds=(1, "rounds to run"),
    most=(320, "most examples per client; 0: all"),
    alpha=(0.1, "alpha of the Dirichlet partition"),
)


def shortened(exp: Experiment, most: int) -> Experiment:
    """Limits clients to their first `most` examples, in tables of the same length."""

    def cut(shard):
        return Shard(shard.index, jnp.minimum(shard.size, most))

    if not most:
        return exp
    train, test = (tuple(map(cut, part)) for part in (exp.train, exp.test))
    return exp._replace(train=train, test=test)


def run(settings: dict, images: str) -> dict:
    """Measures a run by stages; a fresh process calls this.

    Args:
      settings: values of the flags.
      images: npz file.
    """
    stages, folder = {}, Path(images).parent

    def stage(name):
        before = max((s["host"] for s in stages.values()), default=0)
        host = max(before, shared.peaks()[0])  # Linux's count is approximate
        device = records.peak_memory_bytes()["device"]  # of the fullest one
        stages[name] = {"host": host, "device": device}

    jax.devices()
    stage("imports")
    base = synthetic.plain("protonorm", synthetic.AS_RELEASED)
    partition = {"partition": "pfllib", "alpha": settings["alpha"]}
    config = synthetic.configured(base, images, settings, **partition)
    exp = build.experiment(config, jax.default_backend())
    stage("data")
    fed = synthetic.Run(shortened(exp, settings["most"]))
    stage("programs")
    clock = measure.Clock()
    for _ in range(settings["rounds"]):
        fed.next_round()
        stage("training")
        fed.evaluate()
        stage("evaluation")
    clock.lap("rounds")
    checkpoint.save(folder / "checkpoints", fed.r, fed.state)
    stage("checkpoint")
    return {"stages": stages, "seconds": clock.parts, "programs": programs(fed.work)}


def programs(work: LocalEngine) -> list[dict]:
    """Returns XLA's account of every program, in bytes."""
    compiled, names = work.compiled, [c.name for c in work.exp.cohorts]
    named = {
        "broadcast": compiled.broadcast,
        "participate": compiled.participate,
        **{f"train {n}": f for n, f in zip(names, compiled.train, strict=True)},
        "update": compiled.update,
        **{f"evaluate {n}": f for n, f in zip(names, compiled.evaluate, strict=True)},
        "diagnostics": compiled.diagnostics,
    }
    return [  # `func`: without bound floats
        {"program": name, **measure.program_memory(f.func)} for name, f in named.items()
    ]


def main(argv):
    """Measures a run in a fresh process."""
    settings = measure.parse(FLAGS, argv, __doc__)
    shape = (settings["pixels"], settings["pixels"], 3)
    with tempfile.TemporaryDirectory() as folder:
        images = Path(folder) / "images.npz"
        synthetic.save(images, settings["images"], shape, settings["classes"])
        arguments = {"settings": settings, "images": str(images)}
        results = measure.fresh("benchmarks.memory", "run", arguments)
    stages = [
        (name, *(b and b / 2**20 for b in (at["host"], at["device"])))
        for name, at in results["stages"].items()
    ]
    columns = ("up to and including", "process", "device")
    tables = [measure.table("Peak memory in MiB", columns, stages)]
    rows = [
        [c if isinstance(c, str) else c / 2**20 for c in r.values()]
        for r in results["programs"]
    ]
    title = "Memory that XLA reserves, in MiB (alias: results in place of arguments)"
    tables.append(measure.table(title, list(results["programs"][0]), rows))
    measure.finish("memory", settings, results, tables)


if __name__ == "__main__":
    main(sys.argv)

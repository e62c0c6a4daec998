"""Seconds to trace, lower and compile all programs of a round.

    python -m benchmarks.compile

Each measurement is a new process. `cold` compiles as the runner does, with an empty
persistent cache. `warm` repeats this with the cache that `cold` left. `each` compiles
one program after the other without a cache, for seconds per program. `--nokeep`
compiles as jaxproto.run does in a notebook, which keeps no traced programs.
"""

import sys
import tempfile
import time
from pathlib import Path

import jax
from absl import flags

from benchmarks import measure, synthetic
from jaxproto.experiment import build
from jaxproto.training import (
    batched_programs,
    compiler,
    program_cache,
    programs,
    xla_cache,
)

FLAGS = measure.flag_values()
flags.DEFINE_string("group", "Ht0", "group of networks", flag_values=FLAGS)
flags.DEFINE_integer("clients", 8, "number of clients", flag_values=FLAGS)
flags.DEFINE_integer("train", 320, "training examples per client", flag_values=FLAGS)
flags.DEFINE_integer("test", 96, "test examples per client", flag_values=FLAGS)
flags.DEFINE_integer("pixels", 32, "height and width", flag_values=FLAGS)
flags.DEFINE_integer("classes", 10, "number of classes K", flag_values=FLAGS)
flags.DEFINE_integer("dim", 512, "number of features d", flag_values=FLAGS)
flags.DEFINE_string("form", "auto", "value of clients_at_once", flag_values=FLAGS)
flags.DEFINE_bool("each", True, "also measure every program alone", flag_values=FLAGS)
flags.DEFINE_bool("keep", True, "traced programs, as main.py does", flag_values=FLAGS)


def prepare(s: dict, folder: Path | None = None):
    """Returns experiment, examples, cache of programs, and seconds of each part."""
    clock = measure.Clock()
    config, exp = synthetic.equal_clients(
        clients=s["clients"],
        train=s["train"],
        test=s["test"],
        shape=(s["pixels"], s["pixels"], 3),
        classes=s["classes"],
        model__group=s["group"],
        model__feat_dim=s["dim"],
        clients_at_once=s["form"],
    )
    examples = build.examples(exp.dataset)
    clock.lap("build")
    wrap = program_cache.uncached
    if folder and s["keep"]:
        wrap = program_cache.disk_cache(folder, config, exp)
    return exp, examples, wrap, clock


def together(settings: dict, folder: str) -> dict:
    """Compiles all programs as the runner does; a fresh process calls this."""
    xla_cache.enable_xla_cache()
    jax.config.update("jax_compilation_cache_dir", folder)
    exp, examples, wrap, clock = prepare(settings, Path(folder))
    compiled, _ = compiler.compile_all(exp, examples, wrap)
    clock.lap("programs")
    starting = programs.with_floats(compiled, exp.floats)
    jax.block_until_ready(programs.init(exp, 0, starting).clients)
    clock.lap("first state")
    return clock.parts


def alone(settings: dict) -> list[dict]:
    """Compiles program after program; a fresh process calls this."""
    jax.config.update("jax_enable_compilation_cache", False)
    exp, examples, *_ = prepare(settings)
    exp = batched_programs.without_lanes(exp)
    state = programs.shapes(exp, 0)
    f = programs.with_floats(programs.build_programs(exp), exp.floats)
    at = programs.round_context(0, 0)
    participants = jax.eval_shape(f.participate, at, state.server)
    down = jax.eval_shape(f.broadcast, state.server).message
    names, rows, ups = [c.name for c in exp.cohorts], [], []
    for name, g, clients, shard in zip(
        names, f.train, state.clients, exp.train, strict=True
    ):
        inputs = programs.RoundArguments(at, participants, down)
        given = (inputs, clients, examples, shard)
        rows.append(one(f"train {name}", g, given))
        ups.append(jax.eval_shape(g, *given)[1])
    rows.append(one("update", f.update, (at, state.server, tuple(ups))))
    for name, g, clients, shard in zip(
        names, f.evaluate, state.clients, exp.test, strict=True
    ):
        given = (down, clients, examples, shard)
        rows.append(one(f"evaluate {name}", g, given))
    rows.append(one("broadcast", f.broadcast, (state.server,)))
    rows.append(one("participate", f.participate, (at, state.server)))
    rows.append(one("diagnostics", f.diagnostics, (state.server,)))
    return rows


def one(name: str, f, given) -> dict:
    """Times the three stages of one program, and counts its lines of StableHLO."""
    start = time.perf_counter()
    traced = jax.jit(f).trace(*given)
    lower = time.perf_counter()
    lowered = traced.lower()
    begin = time.perf_counter()
    lowered.compile()
    end = time.perf_counter()
    return {
        "program": name,
        "trace": lower - start,
        "lower": begin - lower,
        "compile": end - begin,
        "total": end - start,
        "lines": lowered.as_text().count("\n"),
    }


def main(argv):
    """Measures in fresh processes."""
    settings = measure.parse(FLAGS, argv, __doc__)
    given, module = {"settings": settings}, "benchmarks.compile"
    with tempfile.TemporaryDirectory() as cache:
        cold, warm = (
            measure.fresh(module, "together", {**given, "folder": cache})
            for _ in range(2)
        )
    rows = measure.fresh(module, "alone", given) if settings["each"] else []
    tables = [
        measure.table(
            "All programs, as the runner compiles them: seconds",
            ("cache", "first state", "programs", "both"),
            [
                (
                    name,
                    t["first state"],
                    t["programs"],
                    t["first state"] + t["programs"],
                )
                for name, t in {"cold": cold, "warm": warm}.items()
            ],
        )
    ]
    if rows:
        keys = ("program", "trace", "lower", "compile", "total", "lines")
        total = {k: sum(r[k] for r in rows) for k in keys[1:]}
        rows.append({"program": "all", **total})
        title = "Every program alone, no cache: seconds, and lines of StableHLO"
        tables.append(measure.table(title, keys, [[r[k] for k in keys] for r in rows]))
    results = {"cold": cold, "warm": warm, "each": rows}
    measure.finish("compile", settings, results, tables)


if __name__ == "__main__":
    main(sys.argv)

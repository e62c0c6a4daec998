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

from benchmarks import measure, synthetic
from jaxproto.experiment import build
from jaxproto.training import compiler, program_cache, programs, xla_cache

FLAGS = measure.flag_values(
    *("group", "clients", "train", "test", "pixels", "classes", "dim", "form"),
    each=(True, "also measure every program alone"),
    keep=(True, "keep traced programs, as main.py does"),
)


def prepare(s: dict, folder: Path | None = None):
    """Returns experiment, examples, cache of programs, and seconds of each part."""
    clock = measure.Clock()
    config, exp = synthetic.equal_clients(s)
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
    """Compiles one program after the other; a fresh process calls this."""
    jax.config.update("jax_enable_compilation_cache", False)
    exp, examples, *_ = prepare(settings)
    exp, rows = exp._replace(cores=1), []

    def submit(name, f, *rest):
        jitted, arguments = jax.jit(f, **f.options), (exp.floats, *rest)
        if not name.startswith("start_"):  # programs of the first state: only in `cold`
            rows.append(one(name, jitted, arguments))
        return compiler.PendingProgram(jax.eval_shape(jitted, *arguments), None)

    compiler.submit_programs(submit, exp, programs.build_programs(exp), examples)
    return rows


def one(name: str, jitted, arguments) -> dict:
    """Times the three stages of one program, and counts its lines of StableHLO."""
    start = time.perf_counter()
    traced = jitted.trace(*arguments)
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
    cells = []
    for name, t in {"cold": cold, "warm": warm}.items():
        both = t["first state"], t["programs"]
        cells.append((name, *both, sum(both)))
    columns = ("cache", "first state", "programs", "both")
    title = "All programs, as the runner compiles them: seconds"
    tables = [measure.table(title, columns, cells)]
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

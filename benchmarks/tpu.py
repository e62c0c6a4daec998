"""XLA's programs for TPU v5e, compiled without a TPU: memory, traffic, collectives.

    python -m benchmarks.tpu
    python -m benchmarks.tpu --networks=cnn4 --chips=1
    python -m benchmarks.tpu --parts=steps --forms=all:lax,one:tpu --dtype=bfloat16

libtpu compiles every program of a run ahead of time. Nothing is executed, so the only
time is a lower bound, the roofline. MODE:OPS is a form: how clients run, and their
operations (jaxproto/models/ops/ops.py). A step is one local step of all clients of a
network. If clients run one by one, its numbers are those of one client times the number
of clients. In programs, the body of every loop counts once.
"""

import os
import sys

from benchmarks import ahead, ahead_run, hlo, measure
from benchmarks.ahead_run import Target

FLOPS = 197e12  # per second, bfloat16: Google's data sheet of v5e
BANDWIDTH = 819e9  # bytes per second of the HBM, from the same data sheet
HBM = 16e9  # bytes

FLAGS = ahead_run.flag_values(["1", "4"], ["one:tpu"])
WITHOUT_TPU = {  # environment in which libtpu does not look for a TPU
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
}


def devices(chips: int):
    """Returns chips of one host of v5e, which has four."""
    for name, value in WITHOUT_TPU.items():
        os.environ.setdefault(name, value)
    return ahead_run.topology("tpu", "v5e:2x2")[:chips]


def read(lowered, compiled) -> dict:
    """Returns XLA's costs of a program, per chip.

    The roofline takes float32 at the rate of bfloat16, because the TPU rounds operands
    of products to bfloat16 by default.
    """
    cost, text = compiled.cost_analysis(), compiled.as_text()
    moved, flops = hlo.traffic(text), cost.get("flops", 0.0)  # absent for integers
    accessed = cost.get("bytes accessed", 0.0)
    return {
        "flops": flops,
        "bytes_accessed": accessed,
        "hbm_bytes": moved["hbm"],
        "memory": measure.program_memory(compiled),
        "collectives": hlo.collectives(text),
        "roofline_seconds": max(flops / FLOPS, accessed / BANDWIDTH),
        "roofline_seconds_hbm": max(flops / FLOPS, moved["hbm"] / BANDWIDTH),
    }


TARGET = Target("tpu-v5e", devices, read, "tpu-aot", ("jax", "libtpu"))


def times(row: dict) -> int:
    """Returns how often the program of a step runs until all clients have stepped."""
    group, mode = row["group"], row["form"].split(":")[0]
    return -(-ahead.rows(group, 1) // ahead.at_once(group, mode))


def tables(rows: list[dict]):
    """Yields a table of steps by form, then one of programs."""
    by_part = {part: [r for r in rows if r["part"] == part] for part in ahead_run.PARTS}
    names = ("network", "dtype", "form")
    columns = (*names, "GFLOP", "GB accessed", "GB of HBM", "ms", "ms by HBM")
    kinds = ("flops", "bytes_accessed", "hbm_bytes")
    bounds = ("roofline_seconds", "roofline_seconds_hbm")
    steps = [
        [
            *(r[n] for n in names),
            *(times(r) * r[k] / 1e9 for k in kinds),
            *(times(r) * r[k] * 1e3 for k in bounds),
        ]
        for r in by_part["steps"]
    ]
    title = "One local step of all clients of a network, on one chip"
    yield measure.table(title, columns, steps)
    names = ("group", "program", "chips", "dtype", "form")
    columns = (*names, "GFLOP", "GB accessed", "ms", "GB needed", "% of HBM")
    programs = [
        [
            *(r[n] for n in names),
            *(r[k] / 1e9 for k in kinds[:2]),
            r["roofline_seconds"] * 1e3,
            r["memory"]["need"] / 1e9,
            100 * r["memory"]["need"] / HBM,
            sum(r["collectives"].values()),
        ]
        for r in by_part["programs"]
    ]
    title = "Programs per chip, with the body of every loop once"
    yield measure.table(title, (*columns, "collectives"), programs)


def main(argv):
    """Compiles, and writes the results."""
    settings = measure.parse(FLAGS, argv, __doc__)
    ahead_run.run(TARGET, settings, tables)


if __name__ == "__main__":
    main(sys.argv)

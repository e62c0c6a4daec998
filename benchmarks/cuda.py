"""What XLA compiles for H100 and A100: library calls, memory, collectives.

    python -m benchmarks.cuda
    python -m benchmarks.cuda --gpus=h100 --networks=resnet8 --chips=1

Every program is compiled ahead of time and nothing is executed. Without a GPU, XLA
tries no algorithms: it takes a kernel of its own for a matrix product where a GPU might
prefer cuBLAS, and the workspaces of cuDNN are not counted. Times are not known.
MODE:OPS is a form: how clients run and which operations (jaxproto/models/ops/ops.py). Flops are
those of the program before XLA optimises it, loops' bodies once.
"""

import os
import sys

from absl import flags

from benchmarks import ahead, ahead_run, hlo, measure
from benchmarks.ahead_run import Target
from benchmarks.cuda_chips import CHIPS

FLAGS = ahead_run.flag_values("1,8", "all:lax,all:gpu,one:lax")
flags.DEFINE_list("gpus", ",".join(CHIPS), "to compile for", flag_values=FLAGS)


def read(stage, compiled, chips: int) -> dict:
    """What XLA tells of a program, per GPU."""
    text = compiled.as_text()
    cost = stage.cost_analysis() or {}
    return {
        "flops_before_optimisation": cost.get("flops"),
        "library_calls": hlo.library_calls(text),
        "groups_of_convolutions": hlo.grouped(text),
        "collectives": hlo.collectives(text),
        "memory": ahead.memory(compiled),
    }


def target(gpu: str) -> Target:
    """One kind of GPU."""

    def devices(many):
        options = {"target_config": CHIPS[gpu], "topology": f"1x1x{many}"}
        return ahead_run.topology("cuda", "", **options)

    packages = "jax", "jax-cuda12-plugin", "nvidia-cuda-nvcc-cu12"
    return Target(f"cuda-{gpu}", devices, read, "cuda-aot", packages)


def tables(rows: list[dict]):
    """Steps and programs in one table."""
    names = ("program", "chips", "dtype", "form")
    columns = (*names, "cuDNN", "grouped", "cuBLAS", "GEMM kernels", "MB temporary")
    lines = [
        [
            *(r[n] for n in names),
            calls(r, "__cudnn"),
            sum(r["groups_of_convolutions"].values()),
            calls(r, "__cublas"),
            calls(r, "__triton_nested_gemm") + calls(r, "__triton_gemm"),
            r["memory"]["temp"] / 1e6,
            sum(r["collectives"].values()),
        ]
        for r in rows
    ]
    title = "Calls of libraries, products by kernels of XLA, per GPU"
    return [measure.table(title, (*columns, "collectives"), lines)]


def calls(row: dict, prefix: str) -> int:
    """Library calls whose name begins like this."""
    found = row["library_calls"].items()
    return sum(many for name, many in found if name.startswith(prefix))


def main(argv):
    """Compiles for each GPU, and writes a file for each."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no driver: known
    settings = measure.parse(FLAGS, argv, __doc__)
    gpus = settings["gpus"]
    for gpu in gpus:
        if gpu not in CHIPS:
            sys.exit(f"error: no GPU {gpu!r} in --gpus; they are {', '.join(CHIPS)}.")
    if settings["out"] and len(gpus) > 1:
        sys.exit(f"error: one --out for {len(gpus)} GPUs; name one in --gpus.")
    for gpu in gpus:
        ahead_run.run(target(gpu), settings, tables)


if __name__ == "__main__":
    main(sys.argv)

"""XLA's programs for H100 and A100: library calls, memory, collectives.

    python -m benchmarks.cuda
    python -m benchmarks.cuda --gpus=h100 --networks=resnet8 --chips=1

Every program is compiled ahead of time and nothing is executed, so there are no times.
Without a GPU, XLA does not autotune: it uses its own kernel for a matrix product where
cuBLAS may be faster, and the workspaces of cuDNN are not counted. MODE:OPS is a form:
how clients run, and their operations (jaxproto/models/ops/ops.py). Flops are those of
the program before XLA optimises it, with the body of every loop once.
"""

import os
import sys

from benchmarks import ahead_run, hlo, measure
from benchmarks.ahead_run import Target
from benchmarks.cuda_chips import CHIPS

FORMS = ["all:lax", "all:gpu", "one:lax"]
GPUS = list(CHIPS), "GPUs to compile for"
FLAGS = ahead_run.flag_values(["1", "8"], FORMS, gpus=GPUS)


def read(lowered, compiled) -> dict:
    """Returns XLA's account of a program, per GPU."""
    text = compiled.as_text()
    cost = lowered.cost_analysis() or {}
    return {
        "flops_before_optimisation": cost.get("flops"),
        "library_calls": hlo.library_calls(text),
        "groups_of_convolutions": hlo.grouped(text),
        "collectives": hlo.collectives(text),
        "memory": measure.program_memory(compiled),
    }


def target(gpu: str) -> Target:
    """Returns the target for one kind of GPU."""

    def devices(many):
        options = {"target_config": CHIPS[gpu], "topology": f"1x1x{many}"}
        return ahead_run.topology("cuda", "", **options)

    packages = "jax", "jax-cuda12-plugin", "nvidia-cuda-nvcc-cu12"
    return Target(f"cuda-{gpu}", devices, read, "cuda-aot", packages)


def tables(rows: list[dict]):
    """Returns one table of steps and programs."""
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
    title = "Library calls and matrix products by XLA's own kernels, per GPU"
    return [measure.table(title, (*columns, "collectives"), lines)]


def calls(row: dict, prefix: str) -> int:
    """Counts library calls whose name starts with a prefix."""
    found = row["library_calls"].items()
    return sum(many for name, many in found if name.startswith(prefix))


def main(argv):
    """Compiles for each GPU, and writes one file per GPU."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # no warning about the driver
    settings = measure.parse(FLAGS, argv, __doc__)
    gpus = settings["gpus"]
    measure.check_choices(settings, "gpus", CHIPS)
    if settings["out"] and len(gpus) > 1:
        sys.exit(f"error: --out is for one GPU, --gpus has {len(gpus)}; choose one.")
    for gpu in gpus:
        ahead_run.run(target(gpu), settings, tables)


if __name__ == "__main__":
    main(sys.argv)

"""Runs every cell of the comparison, three seeds; finished runs are left as they are.

    python -m results.fashion_mnist.run OUT DATA_DIR [WORD...]

Called again, it resumes. Arguments: results/series.py.
"""

import itertools
import sys
from pathlib import Path

from results import series

PROTOTYPES = (
    "protonorm",
    "fedproto",
    "fedtgp",
    "tinyproto",
    "tinyproto_ft",
    "cps_ppa_cpkd",
    "cps_ppa_cpkd_ft",
    "refprotofl",
    "local",
)
BASELINES = (
    "fedavg",
    "fedprox",
    "fednova",
    "fedgh",
    "lg_fedavg",
    "feddistill",
    "fednh",
    "feduv",
    "vhl",
    "fast",
    "fml",
    "fedkd",
)
PULLED = tuple(name for name in PROTOTYPES if name != "local")
WHOLE = ("lg_fedavg", "feduv", "fednh")  # baselines of the README's table
DIAGNOSES = {  # why methods collapse in the reading `paper` (README), one seed:
    # name -> cell, changed fields
    "fedproto_weak": ("fedproto", {"lam": 0.1}),
    "fedtgp_weak": ("fedtgp", {"lam": 0.1}),
    "cps_ppa_cpkd_ft_strong": ("cps_ppa_cpkd_ft", {"lam": 1.0}),
    "tinyproto_unscaled": ("tinyproto", {"scaling": "none"}),
    "tinyproto_s250": ("tinyproto", {"s": 250}),
}
FORMATS = ("float32", "float16", "bfloat16", "int8")  # of values on the wire, both ways
SIZES = (50, 250)  # s, coordinates that a prototype keeps
SHORTER = 10  # rounds of the runs with these formats and sizes
BEGINNING = 20  # rounds after which all methods are compared first
PRECISIONS = ("protonorm", "fedproto")  # also trained with bfloat16 products


def cells(names, suffix="", reading="", flags=()):
    """Yields three seeds of some cells; the first seed of all cells comes first."""
    for seed, cell in itertools.product(range(3), names):
        settings = [f"--config.seed={seed}", *flags]
        if (cell, reading) == ("protonorm", ",paper"):  # as the records were made
            settings.append("--config.method.initial=none")
        yield f"{cell}{suffix}-{seed}", f"comparison.py:{cell}{reading}", settings


def changed(fields):
    """Returns flags that set fields of the method."""
    return [f"--config.method.{k}={v}" for k, v in fields.items()]


def runs():
    """Yields name, configuration and flags of every run."""
    beginning = f"--config.rounds={BEGINNING}"
    yield from cells((*PULLED, *WHOLE), "_20", flags=[beginning])
    flags = [beginning, "--config.model.compute_dtype=bfloat16"]
    yield from cells(PRECISIONS, "_20_bfloat16", flags=flags)
    yield from cells(PROTOTYPES)
    yield from cells(BASELINES)
    yield from cells(PULLED, "_paper", ",paper")
    for name, (cell, fields) in DIAGNOSES.items():
        yield f"{name}-0", f"comparison.py:{cell},paper", changed(fields)
    for s, form in itertools.product(SIZES, FORMATS):
        if (s, form) == (50, "float32"):
            continue  # the beginning of tinyproto_ft_paper-0
        wire = [f"--config.wire.{d}={form}" for d in ("up", "down")]
        yield (
            f"bytes-{s}-{form}",
            "comparison.py:tinyproto_ft,paper",
            [f"--config.rounds={SHORTER}", f"--config.method.s={s}", *wire],
        )


if __name__ == "__main__":
    series.make(runs(), sys.argv[1:], Path(__file__).parent / "records")

"""Runs every cell of the comparison, three seeds; finished runs are left as they are.

    python results/fashion_mnist/run.py OUT DATA_DIR [WORD...]

OUT receives one work directory per run, DATA_DIR is TFDS's. Only runs whose name holds
one of the words are made, if there are any. Called again, it resumes.
"""

import itertools
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
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
FORMATS = ("float32", "float16", "int8")  # of values on the wire, both ways
SIZES = (50, 250)  # s, coordinates that a prototype keeps


def runs():
    """Name, cell and flags of every run, the comparison's first seed first."""
    for cells, seed in itertools.product((PROTOTYPES, BASELINES), range(3)):
        for cell in cells:
            yield f"{cell}-{seed}", cell, [f"--config.seed={seed}"]
    for s, form in itertools.product(SIZES, FORMATS):
        wire = [f"--config.wire.{way}={form}" for way in ("up", "down")]
        yield f"bytes-{s}-{form}", "tinyproto", [f"--config.method.s={s}", *wire]


def main(out: str, data_dir: str, *words: str):
    """Makes the runs one after the other; says which of them failed."""
    failed = []
    for name, cell, flags in runs():
        if words and not any(word in name for word in words):
            continue
        command = [sys.executable, "main.py", f"--config=configs/comparison.py:{cell}"]
        command += [f"--config.data.data_dir={data_dir}", f"--workdir={out}/{name}"]
        if subprocess.run([*command, *flags], cwd=ROOT, check=False).returncode:
            failed.append(name)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])

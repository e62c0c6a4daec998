"""Long runs, one after the other, in the order in which their results are wanted.

    python -m results.queue OUT DATA_DIR [--hours H] [--only WORD] [--left]

`queue.csv` has the cells: name, configuration, and the fields in which the cell differs
from it. All runs of a series have one reading, number of rounds and protocol, and every
seed has a partition of its own (`data.seed=follow`). The methods of one seed come
before the next seed; seed 1 is the first, because earlier records have its partition. A
run that has ended is one line of output and a record of its series
(`results/records.py`), also if it has diverged. Called again after any kill, the queue
goes on with the run that was interrupted; what a run prints is in
`OUT/SERIES/NAME.log`. Finished runs keep checkpoints only for seed 1. DATA_DIR holds
TFDS's fashion_mnist, flowers102_32.npz, cifar10.npz and cifar100.npz.
"""

import argparse
import csv
import fcntl
import math
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from jaxproto.storage.run_folder import RunFolder
from results import records, series

RESULTS = Path(__file__).parent
FIRST = 1  # first seed of every series


class Cell(NamedTuple):
    """A row of `queue.csv`."""

    group: str
    name: str
    config: str
    fields: str  # field=value, separated by blanks


class Part(NamedTuple):
    """A part of the queue: cells of a group in a series, with their seeds."""

    series: str
    group: str
    seeds: Sequence[int] = (FIRST,)


SMALL = [  # Flowers-102 with the 4-layer CNN
    "--config.model.group=cnn4_d",
    "--config.eval_every=2",
    "--config.data.pixels=0",
]
FLAGS = {  # series -> flags of all its runs
    "refprotofl_20": [
        "--config.model.group=cnn4_d",
        "--config.eval_every=1",
        "--config.rounds=20",
    ],
    "flowers102_cnn4_300": [*SMALL, "--config.rounds=300"],
    "flowers102_cnn4_20": [*SMALL, "--config.rounds=20"],
    "fashion_mnist_20": [
        "--config.model.group=cnn4_d",
        "--config.local.epochs=1",
        "--config.rounds=20",
    ],
    "refprotofl": ["--config.model.group=cnn4_d"],
    "spiral": [],
    "fashion_mnist_50": ["--config.eval_every=1"],
    "fashion_mnist_sweeps": ["--config.eval_every=1", "--config.rounds=20"],
    "flowers102": ["--config.eval_every=2", "--config.data.pixels=0"],
    "cifar100_100": ["--config.eval_every=1", "--config.rounds=100"],
    "cifar100_300": ["--config.eval_every=2", "--config.rounds=300"],
    "cifar10_50": ["--config.eval_every=1", "--config.rounds=50"],
}
FILES = {  # first word of a series -> its file in DATA_DIR; else a TFDS data set
    "flowers102": "flowers102_32.npz",
    "cifar10": "cifar10.npz",
    "cifar100": "cifar100.npz",
}
COMMON = [
    "--config.data.seed=follow",
    "--config.eval.per_client=True",
    "--config.checkpoint_every=2",  # a kill costs two rounds
]
# Papers: N is ProtoNorm, T TinyProto, S CPS+PPA+CPKD, R RefProtoFL
QUEUE = (
    Part("spiral", "spiral", (FIRST, 0, 2)),  # N Section 3.2, Figure 2
    Part("refprotofl_20", "refprotofl", (0, 2)),  # R Table 1 and 2, Section 5.2.2
    # N Table 1, 2 and 5, T Table 2: rivals, settings, scales
    Part("flowers102_cnn4_20", "small", (FIRST, 0)),
    # where ProtoNorm diverges, and reasons of contradicted claims
    Part("flowers102_cnn4_20", "small_clipped", (FIRST, 0)),
    # T Table 4 and Figure 5, S Table 1 and 2: components, s, d, distance as pull
    Part("flowers102_cnn4_20", "small_parts", (FIRST, 0)),
    Part("fashion_mnist_20", "beyond", (FIRST, 0, 2)),  # methods of other papers
    Part("flowers102_cnn4_300", "full_length", (FIRST, 0)),  # N Table 1, 3; T Table 1
    Part("refprotofl", "refprotofl_missing"),  # in refprotofl_protocol
    Part("fashion_mnist_50", "comparison", (FIRST, 0, 2)),
    Part("fashion_mnist_50", "parts"),  # S Table 1 and 5.2, lam of S, of N and T
    Part("flowers102", "flowers102"),
    Part("cifar100_100", "cifar100"),
    Part("fashion_mnist_sweeps", "sweeps"),
    Part("fashion_mnist_50", "parts", (0, 2)),
    Part("fashion_mnist_sweeps", "sweeps", (0, 2)),
    Part("refprotofl", "refprotofl", (FIRST, 0, 2)),
    Part("flowers102", "flowers102", (0, 2)),
    Part("flowers102", "flowers102_more", (FIRST, 0)),  # N Table 4 and 5, T Table 4
    Part("cifar100_100", "cifar100", (0,)),
    Part("cifar10_50", "cifar10", (FIRST, 0)),
    Part("cifar100_300", "cifar100_table3", (FIRST, 0)),
)


def cells() -> list[Cell]:
    """Returns the rows of `queue.csv`."""
    text = Path(__file__).with_suffix(".csv").read_text()
    return [Cell(**row) for row in csv.DictReader(text.splitlines())]


def runs(data_dir: str = "") -> Iterator[tuple[str, series.Run]]:
    """Yields the series and the run of every place of the queue, each run once."""
    seen, listed = set(), cells()
    for name, group, seeds in QUEUE:
        common = [*FLAGS[name], *COMMON]
        if file := FILES.get(name.partition("_")[0]):
            common.append(f"--config.data.name=npz:{Path(data_dir, file)}")
        chosen = [cell for cell in listed if cell.group == group]
        for seed, cell in product(seeds, chosen):
            own = [f"--config.{field}" for field in cell.fields.split()]
            flags = [*own, *common, f"--config.seed={seed}"]
            if (name, cell.name, seed) not in seen:
                yield name, (f"{cell.name}-{seed}", cell.config, flags)
            seen.add((name, cell.name, seed))


def left(only: str, data_dir: str = "") -> Iterator[tuple[str, series.Run]]:
    """Yields the runs without a record whose SERIES/NAME contains `only`."""
    there = {
        group: records.contents(RESULTS / group / records.FOLDER).keys()
        for group in FLAGS
    }
    for group, run in runs(data_dir):
        if only in f"{group}/{run[0]}" and run[0] not in there[group]:
            yield group, run


def line(name: str, record: Path, hours: float) -> str:
    """Returns what is printed of a run that has ended: its best accuracies in %."""
    summary = RunFolder.read(record).summary or {}
    text = f"{name} {summary['status']}, {summary['rounds']} rounds, {hours:.2f} h"
    best = records.accuracies(summary["rules"], "best")
    return f"{time.strftime('%F %H:%M')} {text}; {best}\n"


def main(argv: Sequence[str]) -> str | int:
    """Makes the runs; returns the exit code, or the names of those that failed."""
    parser = argparse.ArgumentParser(prog="python -m results.queue")
    parser.add_argument("out", type=Path, help="receives a work directory per run")
    parser.add_argument("data_dir", type=Path)
    parser.add_argument("--hours", type=float, default=math.inf, help="then it ends")
    parser.add_argument("--only", default="", help="part of the names SERIES/NAME")
    parser.add_argument("--left", action="store_true", help="only print what is left")
    args = parser.parse_args(argv)
    if args.left:
        sys.stdout.writelines(f"{group}/{run[0]}\n" for group, run in left(args.only))
        return 0
    out, data_dir = args.out.resolve(), str(args.data_dir.resolve())
    until, failed = time.monotonic() + 3600 * args.hours, []
    out.mkdir(parents=True, exist_ok=True)
    with (out / "lock").open("w") as lock:  # a run that outlives the queue holds it too
        fcntl.flock(lock, fcntl.LOCK_EX)
        for group, run in left(args.only, data_dir):
            name, folder = f"{group}/{run[0]}", RESULTS / group / records.FOLDER
            begun = time.monotonic()
            if begun >= until:
                break
            work = out / group / run[0]
            work.parent.mkdir(exist_ok=True)
            with work.with_name(f"{run[0]}.log").open("a") as log:
                options = {"stdout": log, "stderr": log, "pass_fds": [lock.fileno()]}
                options["seconds"] = until - begun if math.isfinite(until) else None
                ended = series.made(run, work, data_dir, folder, **options)
            if ended and not name.endswith(f"-{FIRST}"):
                shutil.rmtree(work / "checkpoints", ignore_errors=True)
            if ended:
                hours = (time.monotonic() - begun) / 3600
                sys.stdout.write(line(name, folder / run[0], hours))
            elif time.monotonic() < until:
                failed.append(name)
                sys.stdout.write(f"{name} failed: {log.name}\n")
            sys.stdout.flush()
    return f"failed: {', '.join(failed)}" if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

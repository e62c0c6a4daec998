"""Long runs, one after the other, in the order in which their results are wanted.

    python -m results.queue OUT DATA_DIR [--hours H] [--only WORD] [--left]

All runs of a series have one reading, number of rounds and protocol, and every seed
has a partition of its own (`data.seed=follow`). The methods of one seed come before the
next seed; seed 1 is the first, because earlier records have its partition. A run that
has ended is one line of output and a record of its series (`results/records.py`), also
if it has diverged. Called again after any kill, the queue goes on with the run that was
interrupted; what a run prints is in `OUT/SERIES/NAME.log`. Finished runs keep
checkpoints only for seed 1. DATA_DIR holds TFDS's fashion_mnist, flowers102_32.npz,
cifar10.npz and cifar100.npz.

Comments abbreviate the papers: N is ProtoNorm, T TinyProto, S CPS+PPA+CPKD, R
RefProtoFL.
"""

import argparse
import fcntl
import math
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from jaxproto.storage.run_folder import RunFolder
from results import records, series
from results.cifar100 import run as cifar100
from results.refprotofl_protocol import run as protocol

RESULTS = Path(__file__).parent
FIRST = 1  # first seed of every series
Cells = Mapping[str, tuple[str, Sequence[str]]]  # name -> configuration, flags


class Part(NamedTuple):
    """A part of the queue: cells of a series, with their seeds."""

    series: str
    cells: Cells
    seeds: Sequence[int] = (FIRST,)


def method(**fields) -> list[str]:
    """Returns flags that set fields of the method."""
    return [f"--config.method.{name}={value}" for name, value in fields.items()]


def comparison(names, suffix="", *flags: str) -> Cells:
    """Returns cells of configs/comparison.py that have the same flags."""
    return {f"{name}{suffix}": (f"comparison.py:{name}", flags) for name in names}


def plain(*names: str) -> Cells:
    """Returns cells of configurations without a data set or flags."""
    return {name: (f"{name}.py:{{}}", []) for name in names}


def on(dataset: str, *cells: Cells) -> Cells:
    """Returns cells of configurations without a data set, on a data set."""
    return {
        name: (config.format(dataset), flags)
        for group in cells
        for name, (config, flags) in group.items()
    }


# Methods beyond the four papers and their baselines, on one network
BEYOND = on(
    "fashion_mnist",
    plain("local", "fedproto", "fedavg", "fedpcl", "fedsa", "fedhp", "fedproc", "fpl"),
    plain("fedgen", "fedmrl", "fedl2g", "fedmd", "feddf", "fedpac", "heterofl"),
    plain("fedrep", "ditto", "scaffold", "moon", "feddyn"),
)

# Fashion-MNIST, the setting of configs/comparison.py
BASES = ("local", "fedproto", "fedtgp", "protonorm", "tinyproto", "tinyproto_ft")
ALL_ON = ("cps_ppa_cpkd", "cps_ppa_cpkd_ft")
NO_CPS, NO_PPA, NO_CPKD = {"masks": "none"}, {"scaling": "none"}, {"distill": "none"}
OFF = {  # S Table 1 and 5.2: the components that are on -> fields
    "cps": NO_PPA | NO_CPKD,
    "ppa": NO_CPS | NO_CPKD,
    "cpkd": NO_CPS | NO_PPA,
    "cps_ppa": NO_CPKD,
    "cps_cpkd": NO_PPA,
    "ppa_cpkd": NO_CPS,
}
PARTS = {
    f"{name}{base}": (f"comparison.py:cps_ppa_cpkd{base}", method(**off))
    for base, (name, off) in product(("", "_ft"), OFF.items())
}
DISTANCE = {  # S and its bases with the distance of the texts; lam of S, of N and T
    f"{name}_lam{lam}": (f"comparison.py:{name},paper", method(lam=lam))
    for lam, name in product((0.1, 1.0), ("fedproto", "fedtgp", *ALL_ON))
}
CPS = {"cps": PARTS["cps"]}
SPARSE = {**comparison(("tinyproto", "tinyproto_ft")), **CPS}
SWEEPS = {
    **comparison(BASES),
    **CPS,
    **{
        f"protonorm_gamma{gamma}": ("comparison.py:protonorm", method(upscale=gamma))
        for gamma in (1.0, 10.0, 50.0, 200.0)
    },
    **{
        f"{name}_s{s}": (config, [*flags, *method(s=s)])
        for (name, (config, flags)), s in product(SPARSE.items(), (150, 250, 350, 450))
    },
    **{
        f"fedproto_d{d}": ("comparison.py:fedproto", [f"--config.model.feat_dim={d}"])
        for d in (50, 150, 250, 350, 450)
    },
    **comparison(BASES, "_alpha0.05", "--config.data.alpha=0.05"),
    **comparison(BASES, "_alpha0.5", "--config.data.alpha=0.5"),
    **comparison(BASES, "_alpha1.0", "--config.data.alpha=1.0"),
}

# RefProtoFL's Table 2 and 1 on Fashion-MNIST, with the 4-layer CNN
REFPROTOFL = {
    **{
        f"{name}_{alpha}": protocol.cell(name, alpha)
        for alpha, name in product(("0.5", "100"), protocol.METHODS)
    },
    **{
        f"refprotofl_0.5_{name}": (protocol.cell("refprotofl", "0.5")[0], flags)
        for name, flags in {
            "no_erpa": method(anchors="none"),
            "no_apud": method(budget=1.0),
            "neither": method(anchors="none", budget=1.0),
        }.items()
    },
    **{  # R 5.2.2
        f"refprotofl_{alpha}_frozen": (
            protocol.cell("refprotofl", alpha)[0],
            [*method(backbone="frozen"), "--config.model.init=same"],
        )
        for alpha in ("0.5", "100")
    },
}
MISSING = {  # in refprotofl_protocol
    name: REFPROTOFL[name]
    for name in REFPROTOFL
    if name.startswith(("local", "refprotofl_0.5_", "refprotofl_100_"))
    or name in ("fedprox_100", "fednova_100", "vhl_100", "fedgh_100")
}

# Other data sets, d = 500 where the series has TinyProto's and S's setting
S_50 = method(s=50)
HT0: Cells = {  # name -> configuration without the data set, flags
    **plain("local", "lg_fedavg", "fedproto", "fedtgp", "protonorm"),
    "tinyproto": ("tinyproto.py:{}", S_50),
    "tinyproto_ft": ("tinyproto.py:{},ft", S_50),
    "cps_ppa_cpkd": ("cps_ppa_cpkd.py:{}", S_50),
    "cps_ppa_cpkd_ft": ("cps_ppa_cpkd.py:{},fedtgp", S_50),
}
OTHERS = plain("fml", "fedkd", "feddistill")


def varied(name: str, suffix: str, *flags: str, **fields) -> Cells:
    """Returns a cell of HT0 with other flags and fields of its method."""
    config, own = HT0[name]
    used = [] if "s" in fields else own
    return {f"{name}_{suffix}": (config, [*used, *flags, *method(**fields)])}


SCALES = {  # N Table 5
    x: {
        **varied("fedproto", f"scaled{x}", upscale=x),
        **varied("fedtgp", f"scaled{x}", upscale=x),
    }
    for x in (1.1, 1.2, 1.3, 1.4)
}
GAMMA_1, GAMMA_400 = (  # N Table 4
    varied("protonorm", f"gamma{gamma:g}", upscale=gamma) for gamma in (1.0, 400.0)
)
WITH_CPS = {"all": {}, "cps": OFF["cps"]}
COMPONENTS = [  # S Table 1 and 5.2, with s = 50 and 250
    varied(f"cps_ppa_cpkd{base}", name, **off)
    for base, (name, off) in product(("", "_ft"), OFF.items())
] + [
    varied(f"cps_ppa_cpkd{base}", f"{name}250", **off, s=250)
    for base, (name, off) in product(("", "_ft"), WITH_CPS.items())
]
ABLATION = [  # T Table 4
    varied("tinyproto_ft", "no_aps", **NO_PPA),
    varied("tinyproto_ft", "no_cps", **NO_CPS),
]
WIDTHS_FT = [varied("tinyproto_ft", f"s{s}", s=s) for s in (150, 250, 350, 450)]
WIDTHS = [  # T Figure 5, S Table 2
    varied("fedproto", f"d{d}", f"--config.model.feat_dim={d}")
    for d in (50, 150, 250, 350, 450)
] + [
    varied(name, f"s{s}", **off, s=s)
    for s, (name, off) in product(
        (150, 250, 350, 450),
        (("cps_ppa_cpkd", OFF["cps"]), ("tinyproto", {})),
    )
    if (name, s) != ("cps_ppa_cpkd", 250)
]
SETTINGS = {  # N and T Table 2, N Table 1 -> flags
    "d64": ["--config.model.feat_dim=64"],
    "pathological": [
        "--config.data.partition=pfllib_pathological",
        "--config.data.classes_per_client=10",
    ],
    "clients50": ["--config.data.clients=50"],
    "alpha0.5": ["--config.data.alpha=0.5"],
    "alpha0.01": ["--config.data.alpha=0.01"],
}
OF_N = ("d64", "pathological")  # T has no such row
FLOWERS = on("flowers102", HT0)
FLOWERS_MORE = on("flowers102", GAMMA_1, GAMMA_400, SCALES[1.2], SCALES[1.4], *ABLATION)
SMALLER = on("flowers102", HT0, OTHERS)
RIVALS = {  # Local and the rows of T Table 2; N's are those without TinyProto
    name: cell for name, cell in SMALLER.items() if not name.startswith("cps")
}
SLOW = ("fedtgp", "fml", "fedkd")  # after all others
IN_SETTINGS = {
    f"{name}_{setting}": (config, [*flags, *more])
    for slow, (setting, more), (name, (config, flags)) in product(
        (False, True), SETTINGS.items(), RIVALS.items()
    )
    if (name in SLOW) == slow and not (setting in OF_N and name.startswith("tinyproto"))
}
CLIP = "--config.optimizer.clip_norm=100"
# ProtoNorm diverges in these, unless clipped
DIVERGES = ("d64", "pathological", "clients50", "alpha0.01")
CLIPPED = {  # rows of N Table 1 and 2, T Table 2, and Local, all clipped alike
    f"{name}{setting}_clip": (config, [*flags, *more, CLIP])
    for setting, more in ({f"_{s}": SETTINGS[s] for s in DIVERGES} | {"": []}).items()
    for name, (config, flags) in SMALLER.items()
    if not (setting and name.startswith(("tinyproto", "cps")))
}
FULL_LENGTH = {  # rows of N and T Table 1, N Table 3
    **SMALLER,
    **{  # ProtoNorm, FedTGP and CPS + PPA + CPKD diverge, unless clipped
        f"{name}_clip": CLIPPED[f"{name}_clip"]
        for name in SMALLER
        if not name.startswith("tinyproto")
    },
    **on("flowers102", plain("feduv", "fednh"), WIDTHS_FT[0]),
    "feduv_clip": ("feduv.py:flowers102", [CLIP]),  # FedNH's release clips at 10
}
REASONS = {  # of contradicted claims: equal pull per element, equal steps
    "protonorm_d64_gamma72_clip": (
        SMALLER["protonorm"][0],
        [*SETTINGS["d64"], CLIP, *method(upscale=72.0)],
    ),
    "fml_pathological_lr0.02_clip": (
        SMALLER["fml"][0],
        [*SETTINGS["pathological"], CLIP, "--config.optimizer.learning_rate=0.02"],
    ),
}
PULLED = {  # S and its bases with the distance of the texts, lam of N and T
    f"{name}_distance": (f"{config},paper", [*flags, *method(lam=1.0)])
    for name in ("fedproto", "fedtgp", "cps_ppa_cpkd", "cps_ppa_cpkd_ft")
    for config, flags in [SMALLER[name]]
}
OF_T = on("flowers102", *ABLATION, *WIDTHS_FT)
FIRST_SCALED = on("flowers102", GAMMA_1, SCALES[1.1], SCALES[1.2])
SCALED = on("flowers102", *SCALES.values())
OF_S = {
    **{name: cell for name, cell in SMALLER.items() if name.startswith("cps")},
    **on("flowers102", *COMPONENTS, *WIDTHS),
}
SHORT = ("local", "fedproto", "fedtgp", "protonorm", "tinyproto_ft", "cps_ppa_cpkd")
CIFAR10 = on("cifar10", {name: HT0[name] for name in SHORT})
SPARSE_50 = [*cifar100.OTHER, *method(s=50)]
CIFAR100 = {
    **cifar100.RUNS,
    "tinyproto": ("tinyproto.py:cifar100", SPARSE_50),
    "tinyproto_ft": ("tinyproto.py:cifar100,ft", SPARSE_50),
    **{
        f"{name}_clip": (cifar100.RUNS[name][0], [*cifar100.RUNS[name][1], CLIP])
        for name in ("fedproto", "fedtgp")
    },
}
TABLE_3 = {name: CIFAR100[name] for name in ("local", "protonorm", "feduv", "fednh")}

SPIRAL = {  # N Section 3.2, Figure 2
    "local_iid": ("local.py:spiral", ["--config.data.partition=iid"]),
    "local": ("local.py:spiral", []),
    "fedproto_iid": ("fedproto.py:spiral", ["--config.data.partition=iid"]),
    "fedproto": ("fedproto.py:spiral", []),
    "protonorm": ("protonorm.py:spiral", []),
}

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
QUEUE = (
    Part("spiral", SPIRAL, (FIRST, 0, 2)),
    Part("refprotofl_20", REFPROTOFL, (0, 2)),
    Part("flowers102_cnn4_20", {**RIVALS, **FIRST_SCALED, **IN_SETTINGS}, (FIRST, 0)),
    Part("flowers102_cnn4_20", {**CLIPPED, **REASONS}, (FIRST, 0)),
    Part("flowers102_cnn4_20", {**OF_T, **SCALED, **PULLED, **OF_S}, (FIRST, 0)),
    Part("fashion_mnist_20", BEYOND, (FIRST, 0, 2)),
    Part("flowers102_cnn4_300", FULL_LENGTH, (FIRST, 0)),
    Part("refprotofl", MISSING),
    Part("fashion_mnist_50", comparison((*BASES, *ALL_ON)), (FIRST, 0, 2)),
    Part("fashion_mnist_50", {**PARTS, **DISTANCE}),
    Part("flowers102", FLOWERS),
    Part("cifar100_100", CIFAR100),
    Part("fashion_mnist_sweeps", SWEEPS),
    Part("fashion_mnist_50", {**PARTS, **DISTANCE}, (0, 2)),
    Part("fashion_mnist_sweeps", SWEEPS, (0, 2)),
    Part("refprotofl", REFPROTOFL, (FIRST, 0, 2)),
    Part("flowers102", FLOWERS, (0, 2)),
    Part("flowers102", FLOWERS_MORE, (FIRST, 0)),
    Part("cifar100_100", CIFAR100, (0,)),
    Part("cifar10_50", CIFAR10, (FIRST, 0)),
    Part("cifar100_300", TABLE_3, (FIRST, 0)),
)


def runs(data_dir: str = "") -> Iterator[tuple[str, series.Run]]:
    """Yields the series and the run of every place of the queue, each run once."""
    seen = set()
    for name, cells, seeds in QUEUE:
        more = [*FLAGS[name], *COMMON]
        if file := FILES.get(name.partition("_")[0]):
            more.append(f"--config.data.name=npz:{Path(data_dir, file)}")
        for seed, (cell, (config, flags)) in product(seeds, cells.items()):
            run = f"{cell}-{seed}", config, [*flags, *more, f"--config.seed={seed}"]
            if (name, cell, seed) not in seen:
                yield name, run
            seen.add((name, cell, seed))


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

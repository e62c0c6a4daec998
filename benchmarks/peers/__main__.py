"""Equal federations in jaxproto, pfl-research, FedJAX, Flower and HtFLlib.

    python -m benchmarks.peers --install           # environments, once
    python -m benchmarks.peers
    python -m benchmarks.peers --workload=logistic
    python -m benchmarks.peers --workload=htfe8 --install --data=cifar100.npz

All contenders have the same images, clients, initial network, batch size and learning
rate, and the same participants in every round. A client trains one epoch of SGD in
whole batches of a new order. Contenders run in turn, each in its own process for all
rounds, and the first round of a process is not counted. Memory is the peak of a
process, and the sum of the peaks over it and its descendants (Flower's workers).

The workload `htfe8` is Local and FedProto on the eight networks of HtFLlib's group
HtFE-img-8, in jaxproto and in HtFLlib, with the same partition.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from absl import flags

from benchmarks import measure
from benchmarks.measure import Timing
from benchmarks.peers import environments, htfe8, prepare, processes, shared

MODULES = {
    "ours": "benchmarks.peers.ours",
    "pfl": "benchmarks.peers.with_pfl",
    "fedjax": "benchmarks.peers.with_fedjax",
    "flower": "benchmarks.peers.with_flower",
}
HTFE8 = "htfe8"
HTFE8_MODULES = {
    "ours": "benchmarks.peers.htfe8",
    "htfllib": "benchmarks.peers.with_htfllib",
}
SIZES = ("clients", "cohort", "images", "test")
FLAGS = measure.flag_values(
    contenders=([], "in this order; default: all"),
    rounds=(10, "timed rounds of a process"),
    repeats=(2, "processes of each contender"),
    limit=(3600.0, "most seconds of a process"),
    data=("", "npz file with x, y; default: random"),
    install=(False, "make missing environments"),
    venvs=(str(environments.DEFAULT), "folder of environments"),
    torch=("torch>=2.6,<3", "requirement of PyTorch for pip"),
    htfllib=(environments.SOURCE, "repository of HtFLlib"),
    methods=(list(htfe8.RULES), "methods of the workload htfe8"),
    python=(sys.executable, "interpreter of new environments"),
    **{k: (0, f"{k} instead of the workload's; 0: the workload's") for k in SIZES},
)
NAMES = (*prepare.WORKLOADS, HTFE8)
flags.DEFINE_enum("workload", "cifar", NAMES, "federation to train", flag_values=FLAGS)


def settings_of(s: dict) -> dict:
    """Returns the workload with the sizes of the command line."""
    work = prepare.WORKLOADS[s["workload"]]._asdict()
    work |= {name: s[name] for name in work if s.get(name)}
    if work["cohort"] > work["clients"]:
        fail(f"--cohort={work['cohort']} of --clients={work['clients']}: choose fewer.")
    if work["images"] < work["batch_size"] or work["test"] < work["clients"]:
        fail("a client needs a whole batch (--images) and a test image (--test).")
    return {**work, "rounds": s["rounds"] + 1, "data": s["data"]}


def fail(why: str) -> NoReturn:
    """Exits with an error."""
    sys.exit(f"error: {why}")


def modules(s: dict) -> dict[str, str]:
    """Returns the module of every contender of the workload."""
    return HTFE8_MODULES if s["workload"] == HTFE8 else MODULES


def check(s: dict):
    """Exits if a contender is unknown or has no environment."""
    folder, names = Path(s["venvs"]), s["contenders"]
    measure.check_choices(s, "contenders", modules(s))
    measure.check_choices(s, "methods", htfe8.RULES)
    absent = environments.absent(folder, names)
    if absent and not s["install"]:
        fail(
            f"{', '.join(absent)}: no environment in {folder}; make it with --install, "
            "or leave it out of --contenders."
        )
    for name in absent:
        print(f"{name}: installing in {folder}", flush=True)
        try:
            environments.install(folder, name, s)
        except (subprocess.CalledProcessError, OSError) as e:
            fail(f"{name} cannot be installed ({e}); leave it out of --contenders.")


def one(name: str, file: Path, s: dict) -> tuple[list[float], dict]:
    """Runs all rounds of a contender in its own process."""
    interpreter = environments.python(Path(s["venvs"]), name)
    program = [str(interpreter), "-m", modules(s)[name], str(file)]
    cache = str(file.parent)  # for data sets
    try:
        return shared.read(processes.output(program, s["limit"], XDG_CACHE_HOME=cache))
    except (processes.Unfinished, ValueError) as e:
        fail(f"{name} {e}")


def measured(s: dict, work: dict, file: Path, summary: Callable) -> dict[str, dict]:
    """Measures all contenders in turn."""
    runs: dict[str, list] = {name: [] for name in s["contenders"]}
    for i in range(s["repeats"]):
        for name, rows in runs.items():
            rows.append(one(name, file, s))
            print(f"{name} {i + 1}: done", flush=True)
    return {name: summary(work, rows) for name, rows in runs.items()}


def summary(work: dict, rows: list[tuple[list[float], dict]]) -> dict:
    """Summarises all processes of a contender."""
    timing = Timing([t for seconds, _ in rows for t in seconds[1:]], [])
    trained = work["images"] // work["batch_size"] * work["batch_size"]
    last = [entry for _, entry in rows]
    return {
        "round": timing.record(),
        "images_per_second": work["cohort"] * trained / timing.median,
        "peak_bytes": max(entry["peak_bytes"][0] for entry in last),
        "peak_bytes_of_all": max(sum(entry["peak_bytes"]) for entry in last),
        "accuracy": [entry["accuracy"] for entry in last],
        "versions": last[0]["versions"],
    }


def row(name: str, r: dict, first: dict) -> list:
    """Returns a row of the table."""
    times, accuracy = r["round"], r["accuracy"]
    memory = [r[k] / 2**20 for k in ("peak_bytes", "peak_bytes_of_all")]
    ends = [times[k] for k in ("median", "min", "max")]
    ratio = times["median"] / first["round"]["median"]
    shown = sum(accuracy) / len(accuracy)
    return [name, *ends, ratio, r["images_per_second"], *memory, shown]


def summary_by_round(work: dict, rows: list[tuple[list[float], dict]]) -> dict:
    """Summarises all processes of a contender of the workload htfe8."""
    last = [entry for _, entry in rows]
    lines = [line for entry in last for line in entry["rounds"][1:]]
    times = {k: [line[k] for line in lines] for k in ("seconds", "evaluation")}
    return {
        **{name: Timing(seconds, []).record() for name, seconds in times.items()},
        "peak_bytes": max(entry["peak_bytes"][0] for entry in last),
        "accuracy": [[line["pooled"] for line in e["rounds"]] for e in last],
        "versions": last[0]["versions"],
    }


def heterogeneous(s: dict):
    """Measures the workload htfe8, method by method."""
    work = {**htfe8.Workload()._asdict(), "data": s["data"], "venvs": s["venvs"]}
    work |= {name: s[name] for name in work if s.get(name)}
    work["rounds"], results, rows = s["rounds"] + 1, {}, []
    for method in s["methods"]:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "federation.npz"
            arguments = {"path": str(file), "settings": {**work, "method": method}}
            cache = {"XDG_CACHE_HOME": folder}
            measure.fresh("benchmarks.peers.htfe8", "write", arguments, **cache)
            results[method] = measured(s, work, file, summary_by_round)
        for name, r in results[method].items():
            times = [r[k]["median"] for k in ("seconds", "evaluation")]
            ends = [accuracy[-1] for accuracy in r["accuracy"]]
            memory = r["peak_bytes"] / 2**20
            rows.append([method, name, *times, memory, sum(ends) / len(ends)])
    columns = ("method", "contender", "round s", "evaluation s", "MiB", "accuracy")
    title = f"{work['group']}: {work['clients']} clients, {work['images']} images"
    tables = [measure.table(title, columns, rows)]
    about = {"workload": {k: v for k, v in work.items() if k not in ("venvs", "data")}}
    measure.finish(f"peers-{HTFE8}", s, {**about, "methods": results}, tables)


def main(argv):
    """Measures one workload."""
    s = measure.parse(FLAGS, argv, __doc__)
    s["contenders"] = s["contenders"] or [*modules(s)]
    if s["workload"] == HTFE8:
        check(s)
        return heterogeneous(s)
    work = settings_of(s)
    check(s)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "federation.npz"
        try:
            prepare.images(file, work)
        except (ValueError, OSError) as e:
            fail(str(e))
        arguments = {"path": str(file), "settings": work}
        cache = {"XDG_CACHE_HOME": folder}
        measure.fresh("benchmarks.peers.prepare", "complete", arguments, **cache)
        results = measured(s, work, file, summary)
    first = s["contenders"][0]
    columns = ("contender", "round s", "min", "max", f"x {first}")
    columns = (*columns, "images/s", "MiB", "MiB of all", "accuracy")
    rows = [row(name, r, results[first]) for name, r in results.items()]
    title = f"Federated averaging, {s['workload']}: {work['cohort']} clients a round"
    outcome = {"workload": work, "contenders": results}
    tables = [measure.table(title, columns, rows)]
    measure.finish(f"peers-{s['workload']}", s, outcome, tables)


if __name__ == "__main__":
    main(sys.argv)

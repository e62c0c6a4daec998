"""The same federated averaging in jaxproto, pfl-research, FedJAX and Flower.

    python -m benchmarks.peers --install           # environments, once
    python -m benchmarks.peers
    python -m benchmarks.peers --workload=logistic

All have the same images, clients, initial network, batch size and learning rate, and
the same clients in every round. A client takes one epoch of SGD in whole batches of a
fresh order. Contenders take turns, each in a process of its own for all rounds; the
first round of a process does not count. Memory is the most that a process had resident
at the end, and the sum of that over its descendants (Flower's workers).
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from absl import flags

from benchmarks import measure
from benchmarks.measure import Timing
from benchmarks.peers import environments, prepare, processes, shared

MODULES = {
    "ours": "benchmarks.peers.ours",
    "pfl": "benchmarks.peers.with_pfl",
    "fedjax": "benchmarks.peers.with_fedjax",
    "flower": "benchmarks.peers.with_flower",
}
FLAGS = measure.flag_values()
NAMES = tuple(prepare.WORKLOADS)
flags.DEFINE_enum("workload", "cifar", NAMES, "what is trained", flag_values=FLAGS)
flags.DEFINE_list("contenders", [*MODULES], "in this order", flag_values=FLAGS)
flags.DEFINE_integer("rounds", 10, "rounds of a process that count", flag_values=FLAGS)
flags.DEFINE_integer("repeats", 2, "processes of each contender", flag_values=FLAGS)
flags.DEFINE_float("limit", 3600, "seconds of a process", flag_values=FLAGS)
flags.DEFINE_string("data", "", "npz file with x, y; else made up", flag_values=FLAGS)
flags.DEFINE_bool("install", False, "make missing environments", flag_values=FLAGS)
flags.DEFINE_string(
    "venvs", str(environments.DEFAULT), "folder of environments", flag_values=FLAGS
)
flags.DEFINE_string(
    "torch", "torch>=2.6,<3", "what pip installs for pfl and Flower", flag_values=FLAGS
)
flags.DEFINE_string(
    "python", sys.executable, "interpreter of new environments", flag_values=FLAGS
)
for size in ("clients", "cohort", "images", "test"):
    about = f"{size} in place of the workload's; 0: those"
    flags.DEFINE_integer(size, 0, about, flag_values=FLAGS)


def settings_of(s: dict) -> dict:
    """The workload with the sizes of the command line."""
    made = prepare.WORKLOADS[s["workload"]]._asdict()
    made |= {name: s[name] for name in made if s.get(name)}
    if made["cohort"] > made["clients"]:
        fail(f"--cohort={made['cohort']} of --clients={made['clients']}: take fewer.")
    if made["images"] < made["batch_size"] or made["test"] < made["clients"]:
        fail("a client needs a whole batch (--images) and a test image (--test).")
    return {**made, "rounds": s["rounds"] + 1, "data": s["data"]}


def fail(why: str):
    """Ends the program."""
    sys.exit(f"error: {why}")


def check(s: dict):
    """Ends the program where a contender is unknown or has no environment."""
    folder, names = Path(s["venvs"]), s["contenders"]
    unknown = [name for name in names if name not in MODULES]
    if unknown or not names:
        fail(f"--contenders={','.join(names)}: they are {', '.join(MODULES)}.")
    absent = environments.absent(folder, names)
    if absent and not s["install"]:
        fail(
            f"{', '.join(absent)}: no environment in {folder}; make it with --install, "
            "or leave it out of --contenders."
        )
    for name in absent:
        print(f"{name}: installing in {folder}", flush=True)
        try:
            environments.install(folder, name, s["torch"], s["python"])
        except (subprocess.CalledProcessError, OSError) as e:
            fail(f"{name} cannot be installed ({e}); leave it out of --contenders.")


def one(name: str, file: Path, s: dict) -> tuple[list[float], dict]:
    """All rounds of a contender in a process of its own."""
    interpreter = environments.python(Path(s["venvs"]), name)
    program = [str(interpreter), "-m", MODULES[name], str(file)]
    cache = str(file.parent)  # of data sets
    try:
        return shared.read(processes.output(program, s["limit"], XDG_CACHE_HOME=cache))
    except (processes.Unfinished, ValueError) as e:
        fail(f"{name} {e}")
        raise


def measured(s: dict, work: dict, file: Path) -> dict[str, dict]:
    """Every contender, in turn."""
    runs: dict[str, list] = {name: [] for name in s["contenders"]}
    for i in range(s["repeats"]):
        for name, rows in runs.items():
            rows.append(one(name, file, s))
            print(f"{name} {i + 1}: done", flush=True)
    return {name: summary(work, rows) for name, rows in runs.items()}


def summary(work: dict, rows: list[tuple[list[float], dict]]) -> dict:
    """What a contender did in all its processes."""
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
    """A line of the table."""
    times, accuracy = r["round"], r["accuracy"]
    memory = [r[k] / 2**20 for k in ("peak_bytes", "peak_bytes_of_all")]
    ends = [times[k] for k in ("median", "min", "max")]
    ratio = times["median"] / first["round"]["median"]
    shown = sum(accuracy) / len(accuracy)
    return [name, *ends, ratio, r["images_per_second"], *memory, shown]


def main(argv):
    """Measures one workload."""
    s = measure.parse(FLAGS, argv, __doc__)
    work = settings_of(s)
    check(s)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "federation.npz"
        try:
            prepare.images(file, work)
        except (ValueError, OSError) as e:
            fail(str(e))
        given = {"path": str(file), "settings": work}
        cache = {"XDG_CACHE_HOME": folder}
        measure.fresh("benchmarks.peers.prepare", "complete", given, **cache)
        results = measured(s, work, file)
    first = s["contenders"][0]
    columns = ("contender", "round s", "min", "max", f"x {first}")
    columns = (*columns, "images/s", "MiB", "MiB of all", "accuracy")
    rows = [row(name, r, results[first]) for name, r in results.items()]
    title = f"Federated averaging, {s['workload']}: {work['cohort']} clients a round"
    found = {"workload": work, "contenders": results}
    tables = [measure.table(title, columns, rows)]
    measure.finish(f"peers-{s['workload']}", s, found, tables)


if __name__ == "__main__":
    main(sys.argv)

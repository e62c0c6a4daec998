"""Clients on several devices: work per device by XLA's cost analysis, and seconds.

    python -m benchmarks.devices
    python -m benchmarks.devices --parts=time --groups=HmCNN

The devices are virtual devices of a CPU, in separate processes.

- `count` compares 1, 2, 4 and 8 devices with the same number of clients per device. It
  shows FLOPs and bytes of each device in local training and in the whole round, by
  `cost_analysis` of the compiled programs. All clients of a device train in step. Weak
  scaling is the work of a single device divided by that of one of several.
- `time` runs rounds of one federation on one device and on as many as there are cores,
  in turn. Evaluation is not timed.
"""

import sys
from collections.abc import Callable

import jax
from absl import flags

from benchmarks import hlo, measure, synthetic
from jaxproto import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.training import compiler, data_placement, rounds, sharded_programs
from jaxproto.types import Examples

FLAGS = measure.flag_values()
flags.DEFINE_list("groups", "Ht0,HmCNN", "groups of networks", flag_values=FLAGS)
flags.DEFINE_list("parts", "count,time", "of count, time", flag_values=FLAGS)
flags.DEFINE_list("devices", "1,2,4,8", "device counts of `count`", flag_values=FLAGS)
flags.DEFINE_integer("each", 1, "clients per network and device", flag_values=FLAGS)
flags.DEFINE_integer("clients", 8, "clients of `time`", flag_values=FLAGS)
flags.DEFINE_integer("train", 320, "training examples per client", flag_values=FLAGS)
flags.DEFINE_integer("batch", 32, "examples per step", flag_values=FLAGS)
flags.DEFINE_integer("pixels", 32, "height and width", flag_values=FLAGS)
flags.DEFINE_integer("classes", 10, "number of classes K", flag_values=FLAGS)
flags.DEFINE_integer("dim", 512, "number of features d", flag_values=FLAGS)
flags.DEFINE_integer("repeats", 5, "timed rounds", flag_values=FLAGS)

NETWORKS = {"Ht0": 4}  # architectures per group; other groups have 1
STAGES = (
    "broadcast",
    "participate",
    "train",
    "update",
    "diagnostics",
)  # stages of a round


def experiment(s: dict, group: str, clients: int, number: int, form: str) -> Experiment:
    """Builds a federation on random images, on the first `number` devices."""
    _, exp = synthetic.equal_clients(
        clients=clients,
        train=s["train"],
        test=32,
        shape=(s["pixels"], s["pixels"], 3),
        classes=s["classes"],
        layout=mesh.parse_devices(str(number)),
        model__group=group,
        model__feat_dim=s["dim"],
        local__batch_size=s["batch"],
        clients_at_once=form,
    )
    return exp


def counted(settings: dict, group: str, number: int) -> dict:
    """Returns FLOPs, bytes and collectives of one of `number` devices."""
    s = settings
    clients = s["each"] * NETWORKS.get(group, 1) * number
    exp = experiment(s, group, clients, number, "all")
    examples, _ = data_placement.place_data(exp)
    made = compiled(exp, examples)
    found = {name: account(made[name]) for name in STAGES}
    return {
        "group": group,
        "devices": number,
        "clients": len(exp.partition.train),
        "train": found["train"],
        "round": summed(list(found.values())),
    }


def compiled(exp: Experiment, examples: Examples) -> dict[str, list]:
    """Compiles the programs of a round by stage; others of a run are only lowered."""
    f = sharded_programs.functions(exp)
    made: dict[str, list] = {stage: [] for stage in STAGES}

    def submit(name, f, *rest, **options):
        options |= f.shardings() if isinstance(f, sharded_programs.ShardMapped) else {}
        lowered = jax.jit(f, **options).lower(exp.floats, *rest)
        if (stage := name.split()[0]) in made:
            made[stage].append(lowered.compile())
        return compiler.PendingProgram(lowered.out_info, None)

    compiler.submit_programs(submit, exp, f, examples)
    return made


def account(compiled_: list) -> dict:
    """Adds up FLOPs, bytes and collectives of a stage's programs on one device."""
    each = []
    for program in compiled_:
        cost = program.cost_analysis() or {}
        each.append(
            {
                "flops": cost.get("flops", 0.0),
                "bytes": cost.get("bytes accessed", 0.0),
                "collectives": sum(hlo.collectives(program.as_text()).values()),
            }
        )
    return summed(each)


def summed(parts: list[dict]) -> dict:
    """Adds up FLOPs, bytes and collectives."""
    names = ("flops", "bytes", "collectives")
    return {name: sum(part[name] for part in parts) for name in names}


def timed(s: dict, group: str) -> dict[str, measure.Timing]:
    """Times a round on one device, and on one device per core."""
    numbers = [1, measure.cores()]
    runs = {
        f"{n} device" + "s" * (n > 1): one(
            experiment(s, group, s["clients"], n, "auto")
        )
        for n in numbers
    }
    return measure.alternate(runs, s["repeats"])


def one(exp: Experiment) -> Callable[[], None]:
    """Returns a function that runs the next round of a federation."""
    work, state, _ = synthetic.start(exp)
    r = 0

    def run():
        nonlocal state, r
        state, _ = rounds.next_state(work, r, state)
        r += 1

    return run


def timed_record(settings: dict, group: str) -> dict:
    """Times rounds of a group; returns the entry of the JSON file."""
    times = timed(settings, group)
    return {"group": group} | {name: time.record() for name, time in times.items()}


def environment(number: int) -> dict[str, str]:
    """Returns the environment of a process with virtual devices."""
    return {"XLA_FLAGS": f"--xla_force_host_platform_device_count={number}"}


def in_processes(settings: dict, functions: list[tuple[str, dict, int]]) -> list[dict]:
    """Calls functions of this module, each in a process with its virtual devices."""
    return [
        measure.fresh(
            "benchmarks.devices", name, {"settings": settings} | given, **environment(n)
        )
        for name, given, n in functions
    ]


def count_table(rows: list[dict]):
    """Makes the table of FLOPs and bytes per device, with weak scaling."""
    first = {row["group"]: row for row in reversed(rows)}
    lines = []
    for row in rows:
        for stage in ("train", "round"):
            alone, own = first[row["group"]][stage], row[stage]
            scaling = [100 * alone[k] / own[k] for k in ("flops", "bytes")]
            name, count = row["group"], own["collectives"]
            work = own["flops"] / 1e9, own["bytes"] / 1e6
            lines.append([name, stage, row["devices"], row["clients"], *work, *scaling])
            lines[-1].append(count)
    columns = ["group", "programs", "devices", "clients", "GF", "MB"]
    columns += ["FLOPs %", "bytes %", "collectives"]
    return measure.table(
        "Work per device, with the body of every loop once", columns, lines
    )


def time_table(rows: list[dict]):
    """Makes the table of seconds per round."""
    lines = [
        [row["group"], name, time["median"], time["min"], time["max"]]
        for row in rows
        for name, time in row.items()
        if name != "group"
    ]
    columns = ["group", "on", "s / round", "min", "max"]
    return measure.table("Rounds without evaluation", columns, lines)


def main(argv):
    """Measures the selected parts."""
    s = measure.parse(FLAGS, argv, __doc__)
    if {*s["parts"]} - {"count", "time"}:
        sys.exit(f"error: --parts={','.join(s['parts'])}; choose from count, time.")
    results: dict[str, list[dict]] = {"count": [], "time": []}
    if "count" in s["parts"]:
        numbers = measure.whole(s["devices"])
        calls = [
            ("counted", {"group": g, "number": n}, n)
            for g in s["groups"]
            for n in numbers
        ]
        results["count"] = in_processes(s, calls)
    if "time" in s["parts"]:
        calls = [("timed_record", {"group": g}, measure.cores()) for g in s["groups"]]
        results["time"] = in_processes(s, calls)
    tables = [count_table(results["count"]), time_table(results["time"])]
    measure.finish("devices", s, results, tables)


if __name__ == "__main__":
    main(sys.argv)

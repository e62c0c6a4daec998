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
from collections import Counter

import jax

from benchmarks import hlo, measure, synthetic
from jaxproto import models
from jaxproto.devices import mesh
from jaxproto.experiment.build import Experiment
from jaxproto.training import compiler, data_placement, sharded_programs

FLAGS = measure.flag_values(
    *("train", "batch", "pixels", "classes", "dim", "repeats"),
    groups=(["Ht0", "HmCNN"], "groups of networks"),
    parts=(["count", "time"], "measurements: count, time"),
    devices=(["1", "2", "4", "8"], "device counts of `count`"),
    each=(1, "clients per network and device"),
    clients=(8, "clients of `time`"),
)

STAGES = "broadcast", "participate", "train", "update", "diagnostics"  # of a round


def experiment(s: dict, group: str, clients: int, number: int, form: str) -> Experiment:
    """Builds a federation on random images, on the first `number` devices."""
    s = {**s, "test": 32, "group": group, "clients": clients, "form": form}
    layout = mesh.parse_devices(str(number))
    return synthetic.equal_clients(s, layout=layout)[1]


def counted(settings: dict, group: str, number: int) -> dict:
    """Returns FLOPs, bytes and collectives of one of `number` devices."""
    s = settings
    clients = s["each"] * len(models.group_members(group)) * number
    exp = experiment(s, group, clients, number, "all")
    examples, _ = data_placement.place_data(exp)
    train, whole = Counter(), Counter()

    def submit(name, f, *rest):
        lowered = jax.jit(f, **f.options).lower(exp.floats, *rest)
        if name.split()[0] in STAGES:  # other programs are only lowered
            work = account(lowered.compile())
            whole.update(work)
            train.update(work if name.startswith("train") else {})
        return compiler.PendingProgram(lowered.out_info, None)

    compiler.submit_programs(
        submit, exp, sharded_programs.build_programs(exp), examples
    )
    case = {"group": group, "devices": number, "clients": len(exp.partition.train)}
    return {**case, "train": train, "round": whole}


def account(program: jax.stages.Compiled) -> dict:
    """Returns FLOPs, bytes and collectives of a program on one device."""
    cost = program.cost_analysis() or {}
    return {
        "flops": cost.get("flops", 0.0),
        "bytes": cost.get("bytes accessed", 0.0),
        "collectives": sum(hlo.collectives(program.as_text()).values()),
    }


def timed(settings: dict, group: str) -> dict:
    """Times a round on one device and on one per core: the entry of the JSON file."""
    s, runs = settings, {}
    for n in (1, measure.cores()):
        exp = experiment(s, group, s["clients"], n, "auto")
        runs[f"{n} device" + "s" * (n > 1)] = synthetic.Run(exp).next_round
    times = measure.alternate(runs, s["repeats"])
    return {"group": group} | {name: time.record() for name, time in times.items()}


def in_process(devices: int, function: str, **arguments) -> dict:
    """Calls a function of this module in a process with virtual devices."""
    virtual = f"--xla_force_host_platform_device_count={devices}"
    return measure.fresh("benchmarks.devices", function, arguments, XLA_FLAGS=virtual)


def count_table(rows: list[dict]):
    """Makes the table of FLOPs and bytes per device, with weak scaling."""
    first = {row["group"]: row for row in reversed(rows)}
    lines = []
    for row in rows:
        for stage in ("train", "round"):
            alone, own = first[row["group"]][stage], row[stage]
            scaling = [100 * alone[k] / own[k] for k in ("flops", "bytes")]
            case = row["group"], stage, row["devices"], row["clients"]
            work = own["flops"] / 1e9, own["bytes"] / 1e6
            lines.append([*case, *work, *scaling, own["collectives"]])
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
    measure.check_choices(s, "parts", ("count", "time"))
    results: dict[str, list[dict]] = {"count": [], "time": []}
    if "count" in s["parts"]:
        results["count"] = [
            in_process(n, "counted", settings=s, group=group, number=n)
            for group in s["groups"]
            for n in measure.whole(s["devices"])
        ]
    if "time" in s["parts"]:
        results["time"] = [
            in_process(measure.cores(), "timed", settings=s, group=group)
            for group in s["groups"]
        ]
    tables = [count_table(results["count"]), time_table(results["time"])]
    measure.finish("devices", s, results, tables)


if __name__ == "__main__":
    main(sys.argv)

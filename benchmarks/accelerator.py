"""All measurements for an accelerator, in one call of at most nine minutes.

    python -m benchmarks.accelerator
    python -m benchmarks.accelerator --dry       # tiny sizes, on a CPU too

Stages run in separate processes, most important first, each within its share of
`--seconds`. Every line is written when it is measured, so that an interrupted call
loses nothing. The benchmark needs no data set and no tensorflow-datasets.

`roofline` is the fraction of the speed of the measured matrix product. `--choose`
writes the fastest forms of operations to the file that `models.ops.ops_for` reads on
this platform.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path

import jax
import jax.numpy as jnp

from benchmarks import local_training, measure, operations, sweep, synthetic
from benchmarks import round as round_
from benchmarks.peers import ours, prepare
from jaxproto import config
from jaxproto.experiment import build
from jaxproto.models.ops import ops
from jaxproto.storage import records

PRECISIONS = {  # name -> matmul precision of float32, dtype of the networks' bodies
    "tf32": ("default", "float32"),
    "bfloat16": ("default", "bfloat16"),
    "float32": ("highest", "float32"),
}
NETWORKS = (
    "cnn4",
    "resnet8",
    "mobilenet_v2",
    "shufflenet_v2_x1_0",
    "efficientnet_b0",
    "resnet4",
    "resnet10",
    "resnet18",
)
FULL = {
    "products": 8192,
    "networks": NETWORKS,
    "cases": tuple(operations.CASES),
    "clients": (20, 5),
    "batch": 32,
    "pixels": 32,
    "steps": 10,
    "train": 320,
    "federation": {},
    "federations": 16,
    "rounds": 5,
}
DRY = FULL | {
    "products": 256,
    "networks": ("cnn4",),
    "cases": ("conv3x3_64", "depthwise3x3_192", "grouped3x3_128", "max_pool2", "sums"),
    "clients": (2,),
    "batch": 4,
    "pixels": 28,
    "steps": 2,
    "train": 8,
    "federation": {"clients": 8, "cohort": 2, "images": 10, "test": 16},
    "federations": 2,
    "rounds": 1,
}

FLAGS = measure.flag_values(
    dry=(False, "tiny sizes"),
    choose=(False, "write the fastest forms"),
    seconds=(540.0, "time limit of all stages"),
    stage=("", "run only this stage"),
)

Lines = Iterator[dict]


def products(size: dict) -> Lines:
    """Yields operations per second of a product, and bytes per second of a copy."""
    n, repeats = size["products"], 2 * size["rounds"]
    for name, (precision, dtype) in PRECISIONS.items():
        a = jax.random.normal(jax.random.key(0), (n, n), dtype)
        matmul = jax.jit(partial(jnp.matmul, precision=precision))
        timing = measure.timed(measure.waiting(matmul, a, a), repeats)
        speed = 2 * n**3 / min(timing.seconds)
        yield {"precision": name, "flops_per_second": speed}
    a = jnp.ones((n, n))
    timing = measure.timed(measure.waiting(jax.jit(lambda a: a + 1), a), repeats)
    yield {"bytes_per_second": 2 * a.nbytes / min(timing.seconds)}


def operation_forms(size: dict) -> Lines:
    """Yields milliseconds of every form of every operation."""
    s = {"clients": max(size["clients"]), "batch": size["batch"], "steps": 5}
    s |= {"repeats": size["rounds"], "maps": ["all"]}
    for case in size["cases"]:
        for row in operations.one_case(case, s):
            kind, form = operations.CASES[case].kind, row["form"].partition(":")[2]
            yield {"case": case, "kind": kind, "form": form, "ms": row["ms"]}


def networks(size: dict) -> Lines:
    """Yields samples per second of local training by network, clients and precision."""
    cases = product(PRECISIONS, size["clients"], size["networks"])
    for precision, clients, name in cases:
        yield _local_training(name, clients, precision, size)


def _local_training(name: str, clients: int, precision: str, size: dict) -> dict:
    matmul, dtype = PRECISIONS[precision]
    s = {"classes": 10, "dim": 512, "pixels": size["pixels"], "batch": size["batch"]}
    s |= {"clients": clients, "steps": size["steps"], "naive_steps": 1}
    with jax.default_matmul_precision(matmul):
        task = local_training.make_task(name, s)
        contender = local_training.ours(task, "auto", "auto", s["steps"], dtype)
        timing = measure.timed(contender.run, size["rounds"])
    flops = local_training.ceiling_.training_flops(name, task.shape, *task.spec)
    return {
        "network": name,
        "clients": clients,
        "precision": precision,
        "samples_per_second": contender.samples / timing.median,
        "flops_per_second": flops and flops * contender.samples / timing.median,
        "compile_seconds": contender.compile_seconds,
    }


def whole_round(size: dict) -> Lines:
    """Yields seconds and peak memory of a ProtoNorm round of Ht0 with evaluation."""
    s = {"clients": 8, "classes": 10, "dim": 512, "pixels": size["pixels"]}
    s |= {"train": size["train"], "test": 96 * size["train"] // 320 or 2}
    s |= {"batch": min(32, size["train"])}
    s |= {"group": ",".join(size["networks"][:5][-4:])}
    for precision, (matmul, dtype) in PRECISIONS.items():
        with jax.default_matmul_precision(matmul):
            exp = round_.experiment(s, dtype)
            timing = measure.timed(round_.ours(exp), size["rounds"])
        peak = records.peak_memory_bytes()["device"]
        yield {"precision": precision, "peak_bytes": peak, **timing.record()}


def federated_averaging(size: dict) -> Lines:
    """Yields seconds of a round in pfl-research's CIFAR10-IID settings."""
    work = prepare.WORKLOADS["cifar"]._asdict() | {"images": 50} | size["federation"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "federation.npz"
        prepare.images(file, {**work, "rounds": 1, "data": ""})
        exp = build.experiment(ours.config(str(file), work), jax.default_backend())
    run = synthetic.Run(exp)
    timing = measure.timed(run.next_round, 4 * size["rounds"])
    peak = records.peak_memory_bytes()["device"]
    costs = {"compile_seconds": run.compile_seconds, "peak_bytes": peak}
    yield costs | timing.record()


def batched_sweep(size: dict) -> Lines:
    """Yields seconds of a round of federations in one program, and one by one."""
    s = {"config": "protonorm:spiral", "clients_at_once": "auto"}
    s |= {"sizes": [1, size["federations"]], "repeats": size["rounds"]}
    results, _ = sweep.scaling(s | {"forms": ["all"]})
    for name, result in results.items():
        yield {"federations": name, **result}


def agreement(size: dict) -> Lines:
    """Yields accuracies on the spiral in float32, on this device and on the CPU."""
    for device in jax.devices()[0], jax.devices("cpu")[0]:
        jax.config.update("jax_default_device", device)
        with jax.default_matmul_precision("highest"):
            exp = build.experiment(config.load("protonorm:spiral"), device.platform)
            run = synthetic.Run(exp)
        for _ in range(size["rounds"]):
            run.next_round()
        yield {"platform": device.platform, **run.evaluate()["rules"]}


STAGES = {  # name -> measurement, share of --seconds
    "products": (products, 0.05),
    "averaging": (federated_averaging, 0.05),
    "agreement": (agreement, 0.05),
    "operations": (operation_forms, 0.15),
    "round": (whole_round, 0.4),
    "sweep": (batched_sweep, 0.1),
    "networks": (networks, 0.2),
}


def run_stage(name: str, size: dict, file: Path):
    """Runs a stage in this process; appends a line per measurement."""
    with file.open("a") as lines:
        for line in STAGES[name][0](size):
            lines.write(json.dumps({"stage": name, **line}) + "\n")
            lines.flush()


def run_all(s: dict, file: Path):
    """Runs all stages in separate processes, within the time limit."""
    began, spent = time.monotonic(), 0.0
    for name, (_, share) in STAGES.items():
        spent += share * s["seconds"] * (8 if s["dry"] else 1)
        left = spent - (time.monotonic() - began)  # with time that earlier stages left
        program = [sys.executable, "-m", "benchmarks.accelerator", f"--stage={name}"]
        program += [f"--out={file}", "--dry"] if s["dry"] else [f"--out={file}"]
        clock, status = time.monotonic(), "complete"
        try:
            subprocess.run(program, cwd=measure.ROOT, check=True, timeout=left)
        except subprocess.TimeoutExpired:
            status = "cut off by the time limit"
        except subprocess.CalledProcessError as e:
            status = f"failed with exit code {e.returncode}"
        note = {"stage": name, "seconds": time.monotonic() - clock, "status": status}
        with file.open("a") as lines:
            lines.write(json.dumps(note) + "\n")
        print(f"{name}: {status}, {note['seconds']:.0f} s", flush=True)


def fastest_forms(lines: list[dict]) -> dict[str, str]:
    """Returns the form of each kind of operation with the least total time."""
    total: dict[str, dict[str, float]] = {}
    for line in lines:
        if "ms" in line:
            times = total.setdefault(line["kind"], {})
            times[line["form"]] = times.get(line["form"], 0.0) + line["ms"]
    return {kind: min(times, key=times.__getitem__) for kind, times in total.items()}


def write_forms(
    platform: str, names: Mapping[str, str], source: str, file: Path = ops.FILE
):
    """Writes the forms of a platform.

    Args:
      names: Field of `Ops` -> name in `FORMS`; other fields are left out.
      source: Origin of the choice, such as the device that was measured.
    """
    known = {kind: name for kind, name in names.items() if kind in ops.FORMS}
    entry = {"source": source, "forms": known}
    table = json.loads(file.read_text()) | {platform: entry}
    file.write_text(json.dumps(table, indent=2) + "\n")


def with_roofline(lines: list[dict]) -> list[dict]:
    """Adds to training speeds their share of the fastest product of the precision."""
    peak = {
        line["precision"]: line["flops_per_second"]
        for line in lines
        if line["stage"] == "products" and "precision" in line
    }

    def with_share(line):
        fastest, own = peak.get(line.get("precision", "")), line.get("flops_per_second")
        comparable = line["stage"] == "networks" and fastest and own
        return {**line, "roofline": own / fastest} if comparable else line

    return [with_share(line) for line in lines]


def main(argv):
    """Measures one stage, or all."""
    s = measure.parse(FLAGS, argv, __doc__)
    size = DRY if s["dry"] else FULL
    if s["stage"]:
        run_stage(s["stage"], size, Path(s["out"]))
        return
    name = "accelerator-dry" if s["dry"] else "accelerator"
    out = Path(s["out"] or measure.ROOT / "benchmarks" / "results" / f"{name}.json")
    file = out.with_suffix(".jsonl")
    file.unlink(missing_ok=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    run_all(s, file)
    lines = with_roofline([json.loads(line) for line in file.read_text().splitlines()])
    chosen = fastest_forms(lines)
    if s["choose"]:
        machine = measure.machine()
        source = f"{machine['accelerator'] or machine['cpu']}, benchmarks.accelerator"
        write_forms(jax.default_backend(), chosen, source)
    rows = [[line["stage"], _text(line)] for line in lines]
    view = measure.table("Measurements of this accelerator", ("stage", "result"), rows)
    results = {"lines": lines, "fastest_forms": chosen}
    measure.finish(name, {**s, "out": str(out)}, results, [view])


def _text(line: dict) -> str:
    kept = {k: v for k, v in line.items() if k not in ("stage", "seconds", "parts")}
    return ", ".join(f"{k} {measure.cell(v)}" for k, v in kept.items())


if __name__ == "__main__":
    main(sys.argv)

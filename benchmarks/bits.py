"""Comparison of the numbers of two commits, to the bit.

    python -m benchmarks.bits --commit=cbdea53
    python -m benchmarks.bits --commit=cbdea53 --only=method,store

Two processes train runs on the digits (3 rounds), one with the code of a commit and one
with the current code: all methods; clients on the device, on the host and in files, and
stateless clients; two virtual devices; a sweep of 2 x 2 in threads and in one program;
a resumed run; server and nodes in one process. Every number in `metrics.jsonl` except
seconds is compared. Entries and runs that only the newer code has are ignored. Prints a
line for each run, and exits with 1 if any differs.
"""

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
PART = {"participation__law": "uniform", "participation__fraction": 0.5}
STORES = ("device", "host", "disk")


def configured(method: str, **fields):
    """Configures six clients of one small network; `__` stands for a dot."""
    from jaxproto import config

    c = config.experiment(method, "digits")
    small = {"data.clients": 6, "model.group": "mlp", "rounds": 3, "eval_every": 1}
    changed = {key.replace("__", "."): value for key, value in fields.items()}
    for key in ("model.aux", "method.aux"):
        group, _, field = key.partition(".")
        if field in c[group]:
            small[key] = "mlp"
    c.update_from_flattened_dict(small | changed)
    return c


def named(module, *names: str):
    """Returns the first of these attributes that exists; commits differ in names."""
    return next(getattr(module, name) for name in names if hasattr(module, name))


def module(*names: str):
    """Returns the first of these modules that exists; commits differ in names."""
    for name in names[:-1]:
        with contextlib.suppress(ModuleNotFoundError):
            return importlib.import_module(name)
    return importlib.import_module(names[-1])


def quiet():
    """Returns a console that prints nothing."""
    from rich.console import Console

    return Console(quiet=True)


def run(method: str, devices: str = "", **fields) -> Callable[[Path], None]:
    """Returns a function that trains a run in a folder."""

    def train(path):
        import jaxproto

        jaxproto.run(configured(method, **fields), path, quiet(), devices=devices)

    return train


def resumed(path: Path):
    """Trains two rounds, then resumes for a third; clients keep optimiser states."""
    fields = {"optimizer__momentum": 0.5, "local__optimizer_state": "keep"}
    for rounds in (2, 3):
        run("protonorm", rounds=rounds, **fields)(path)


def swept(cells_at_once: str) -> Callable[[Path], None]:
    """Returns a function that trains a sweep of two seeds and two weights."""

    def train(path):
        sweeps = module("jaxproto.lab.sweeps", "jaxproto.sweeps")
        axes = {"seed": [0, 1], "method.lam": [1.0, 5.0]}
        how = named(sweeps, "SweepOptions", "How")(cells_at_once)
        sweeps.sweep(configured("fedproto"), axes, path, quiet(), how)

    return train


def rehearsed(method: str) -> Callable[[Path], None]:
    """Returns a function that runs server and nodes in one process."""

    def train(path):
        flower = module("jaxproto.nodes.flower", "jaxproto.flower")
        rehearse = named(flower, "run_in_process", "rehearse")
        rehearse(configured(method), path, console=quiet())

    return train


def cases() -> dict[str, Callable[[Path], None]]:
    """Returns all runs by their names."""
    from jaxproto.methods import METHODS

    two_networks = {"model__group": "mlp,cnn4_d"}
    return {
        **{f"method {name}": run(name) for name in METHODS},
        **{
            f"store {store}": run("protonorm", clients__store=store, **PART)
            for store in STORES
        },
        "store none": run("fedavg", **PART),
        "devices 2": run("protonorm", devices="2", **two_networks),
        "devices 2, part": run("refprotofl", devices="2", **PART),
        "sweep threads": swept("threads"),
        "sweep together": swept("all"),
        "resume": resumed,
        "nodes fedproto": rehearsed("fedproto"),
        "nodes fedavg": rehearsed("fedavg"),
        "nodes refprotofl": rehearsed("refprotofl"),
    }


def numbers(folder: Path) -> dict[str, list]:
    """Reads the records of all runs below a folder, without seconds, by path."""
    return {
        str(file.relative_to(folder)): [
            {k: v for k, v in json.loads(line).items() if k != "seconds"}
            for line in file.read_text().splitlines()
        ]
        for file in sorted(folder.rglob("metrics.jsonl"))
    }


def train_all(folder: Path, only: list[str]):
    """Trains every case with the code of the current folder."""
    for name, train in cases().items():
        if not only or any(name.startswith(word) for word in only):
            train(folder / name.replace(" ", "_"))


def trained(code: Path, folder: Path, only: list[str]) -> dict[str, list]:
    """Trains all cases with the code of a checkout; returns their numbers."""
    flags = "--xla_force_host_platform_device_count=2"
    env = {**os.environ, "PYTHONPATH": str(code), "XLA_FLAGS": flags}
    env["JAXPROTO_CACHE"] = "off"  # uses no programs of the other commit
    command = [sys.executable, Path(__file__), "--train", folder, "--only", *only]
    subprocess.run(list(map(str, command)), cwd=code, env=env, check=True)
    return numbers(folder)


def main():
    """Compares a commit with the current code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commit", default="cbdea53")
    parser.add_argument("--only", nargs="*", default=[], help="prefixes of cases")
    parser.add_argument("--train", type=Path, help="train in this folder")
    args = parser.parse_args()
    only = [word for words in args.only for word in words.split(",")]
    if args.train:
        return train_all(args.train, only)
    with tempfile.TemporaryDirectory() as folder:
        old = Path(folder) / "code"
        subprocess.run(["git", "clone", "-q", str(ROOT), str(old)], check=True)
        checkout = ["git", "checkout", "-q", args.commit]
        subprocess.run(checkout, cwd=old, check=True)
        before = trained(old, Path(folder) / "before", only)
        after = trained(ROOT, Path(folder) / "after", only)
    return sys.exit(not shown(before, after))


def is_in(old, new) -> bool:
    """Returns whether every entry of the older record is in the newer one."""
    if isinstance(old, dict) and isinstance(new, dict):
        return all(key in new and is_in(value, new[key]) for key, value in old.items())
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        return all(map(is_in, old, new))
    return old == new


def shown(before: dict[str, list], after: dict[str, list]) -> bool:
    """Prints which runs agree. Returns whether all do."""
    all_same = bool(before)
    for name, records in sorted(before.items()):
        same = is_in(records, after.get(name))
        all_same &= same
        count = len(records)
        print(f"{'same bits' if same else 'DIFFERENT'}  {count} records  {name}")
    verdict = "same bits" if all_same else "DIFFERENT"
    print(f"{len(before)} and {len(after)} runs: {verdict}")
    return all_same


if __name__ == "__main__":
    main()

"""Common parts of `benchmarks.tpu` and `benchmarks.cuda`: flags, loop, JSON file."""

import datetime
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental import topologies
from jax.sharding import Mesh

from benchmarks import ahead, measure
from jaxproto.errors import UserError
from jaxproto.models.registry import PRECISIONS

PARTS = ("steps", "programs")
KEY = ("part", "group", "network", "program", "chips", "dtype", "form")


class Target(NamedTuple):
    """An accelerator to compile for."""

    name: str  # of the JSON file
    devices: Callable[[int], Sequence]  # number -> devices
    read: Callable[[jax.stages.Lowered, jax.stages.Compiled], dict]  # XLA's account
    install: str  # extra of jaxproto that installs the compiler
    packages: tuple[str, ...]  # versions of these are in every row


def flag_values(chips: list[str], forms: list[str], **more):
    """Makes the flags of both benchmarks, and the flags `more` of one of them."""
    modes = "MODE:OPS; modes one, all, a number; ops " + ", ".join(ahead.OPS)
    return measure.flag_values(
        networks=([*ahead.NETWORKS], "networks of the programs"),
        chips=(chips, "devices that share the clients"),
        dtype=(["float32"], "dtype of the bodies: " + ", ".join(PRECISIONS)),
        forms=(forms, modes),
        parts=([*PARTS], "steps: local steps alone; programs: all of a run"),
        programs=([], "only these: train, update, ..."),
        add=(False, "keep the other rows of the file"),
        **more,
    )


def run(target: Target, settings: dict, tables: Callable):
    """Compiles the selected programs, writes each row at once and prints the tables.

    Args:
      target: accelerator.
      settings: values of the flags.
      tables: `rows -> tables`.

    Raises:
      SystemExit: a name is wrong, or the compiler is not installed.
    """
    jax.config.update("jax_platforms", "cpu")
    default = measure.ROOT / "benchmarks" / "results" / f"{target.name}.json"
    path, rows = Path(settings["out"] or default), []
    settings = {**settings, "out": str(path)}
    if settings["add"] and path.exists():
        rows = json.loads(path.read_text())["results"]
    try:
        for row in compiled(target, settings):
            rows = [*(old for old in rows if key(old) != key(row)), row]
            measure.write(target.name, settings, rows)
    except UserError as e:
        sys.exit(f"error: {e}")
    measure.finish(target.name, settings, rows, tables(rows))


def compiled(target: Target, s: dict) -> Iterator[dict]:
    """Yields a row for each compiled program, and prints that it is done."""
    cases = itertools.product(
        ahead.groups(s["networks"]), measure.whole(s["chips"]), s["dtype"], s["forms"]
    )
    for group, chips, dtype, name in cases:
        mesh = Mesh(np.array(devices(target, chips)), (ahead.AXIS,))
        how = ahead.form(name)
        common = {"group": group, "chips": chips, "dtype": dtype, "form": name}
        versions = {p: metadata.version(p) for p in target.packages}
        for part, network, program in selected(s, group, how, dtype, mesh):
            start = time.process_time()
            lowered = program.stage.lower()
            executable = lowered.compile()
            seconds = time.process_time() - start
            labels = {"part": part, "network": network, "program": program.name}
            labels |= common
            account = target.read(lowered, executable)
            date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            print(*labels.values(), f"{seconds:.0f} s of CPU", flush=True)
            more = {"compile_cpu_seconds": seconds, "date": date, "versions": versions}
            yield {**labels, **account, **more}


def devices(target: Target, chips: int) -> Sequence:
    """Returns devices of the target; exits if its compiler is not installed."""
    try:
        return target.devices(chips)
    except Exception as e:
        sys.exit(
            f"error: no compiler for {target.name}: {str(e).splitlines()[0]} "
            f"(pip install -e '.[{target.install}]')"
        )


def selected(s: dict, group: str, how: ahead.Form, dtype: str, mesh: Mesh):
    """Yields part, network and program of everything that the settings select."""
    members = ahead.models.GROUPS[group]
    if "steps" in s["parts"] and mesh.size == 1:
        for name in (n for n in members if n in s["networks"]):
            yield "steps", name, ahead.step(name, group, how, dtype, mesh)
    if "programs" in s["parts"]:
        for program in ahead.traced(
            ahead.federation(group, how, dtype, mesh.size), mesh
        ):
            kinds = s["programs"] or [program.name.split()[0]]
            if program.name.split()[0] in kinds and ahead.wanted(
                program, s["networks"]
            ):
                last = program.name.split()[-1]
                yield "programs", last if last in members else "", program


def key(row: dict) -> tuple:
    """Returns the values that identify a row."""
    return tuple(row[name] for name in KEY)


def topology(platform: str, name: str, **options) -> Sequence:
    """Returns the devices of a topology, which this machine need not have."""
    return topologies.get_topology_desc(
        platform=platform, topology_name=name, **options
    ).devices

"""What `benchmarks.tpu` and `benchmarks.cuda` share: flags, the loop, the file."""

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
from absl import flags
from jax.experimental import topologies
from jax.sharding import Mesh

from benchmarks import ahead, measure
from jaxproto.errors import UserError
from jaxproto.models.registry import PRECISIONS

PARTS = ("steps", "programs")
KEY = ("part", "group", "network", "program", "chips", "dtype", "form")


class Target(NamedTuple):
    """An accelerator to compile for."""

    name: str  # of the file of results
    devices: Callable[[int], Sequence]  # so many of them
    read: Callable[[jax.stages.Lowered, jax.stages.Compiled, int], dict]  # and chips
    install: str  # the extra that has the compiler
    packages: tuple[str, ...]  # whose versions a row tells


def flag_values(chips: str, forms: str) -> flags.FlagValues:
    """Flags of both benchmarks."""
    values, names = measure.flag_values(), ",".join(ahead.NETWORKS)
    of = {"flag_values": values}
    flags.DEFINE_list("networks", names, "whose programs are compiled", **of)
    flags.DEFINE_list("chips", chips, "devices that clients are divided among", **of)
    flags.DEFINE_list(
        "dtype", "float32", "of the bodies: " + ", ".join(PRECISIONS), **of
    )
    flags.DEFINE_list(
        "forms",
        forms,
        "MODE:OPS; modes one, all, a number; ops " + ", ".join(ahead.OPS),
        **of,
    )
    flags.DEFINE_list("parts", ",".join(PARTS), "local steps alone, programs", **of)
    flags.DEFINE_list("programs", "", "of these only: train, update, ...", **of)
    flags.DEFINE_bool("add", False, "to what the file has", **of)
    return values


def run(target: Target, settings: dict, tables: Callable):
    """Compiles what the settings ask for, writes each row at once, prints the tables.

    Args:
      tables: of rows.

    Raises:
      SystemExit: a name is wrong, or the compiler is not installed.
    """
    jax.config.update("jax_platforms", "cpu")
    default = measure.ROOT / "benchmarks" / "results" / f"{target.name}.json"
    settings = {**settings, "out": settings["out"] or str(default)}
    rows = before(settings)
    try:
        for row in compiled(target, settings):
            rows = [*(old for old in rows if key(old) != key(row)), row]
            measure.write(target.name, settings, rows)
    except UserError as e:
        sys.exit(f"error: {e}")
    measure.finish(target.name, settings, rows, tables(rows))


def before(settings: dict) -> list[dict]:
    """The rows of the file, if this run adds to it."""
    path = Path(settings["out"])
    there = settings["add"] and path.exists()
    return json.loads(path.read_text())["results"] if there else []


def compiled(target: Target, s: dict) -> Iterator[dict]:
    """The rows one by one, told on the way."""
    every = itertools.product(
        ahead.groups(s["networks"]), measure.whole(s["chips"]), s["dtype"], s["forms"]
    )
    for group, chips, dtype, name in every:
        mesh = Mesh(np.array(devices(target, chips)), (ahead.AXIS,))
        how = ahead.form(name)
        common = {"group": group, "chips": chips, "dtype": dtype, "form": name}
        versions = {name: metadata.version(name) for name in target.packages}
        for part, network, program in asked(s, group, how, dtype, mesh):
            start = time.process_time()
            stage = program.stage.lower()
            made = stage.compile()
            seconds = time.process_time() - start
            what = {"part": part, "network": network, "program": program.name, **common}
            found = target.read(stage, made, chips)
            at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
            print(*what.values(), f"{seconds:.0f} s of CPU", flush=True)
            cost = {"compile_cpu_seconds": seconds, "date": at, "versions": versions}
            yield {**what, **found, **cost}


def devices(target: Target, chips: int) -> Sequence:
    """So many devices of the target; ends the program without its compiler."""
    try:
        return target.devices(chips)
    except Exception as e:
        sys.exit(
            f"error: no compiler for {target.name}: {str(e).splitlines()[0]} "
            f"(pip install -e '.[{target.install}]')"
        )


def asked(s: dict, group: str, how: ahead.Form, dtype: str, mesh: Mesh):
    """Part, network and program of everything that the settings ask for."""
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
    """What a row is of."""
    return tuple(row[name] for name in KEY)


def topology(platform: str, name: str, **options) -> Sequence:
    """Devices of a topology that need not be there."""
    return topologies.get_topology_desc(
        platform=platform, topology_name=name, **options
    ).devices

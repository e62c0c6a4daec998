"""The flags of a sweep, of `main.py`, `jaxproto run` and `jaxproto sweep`."""

import os
import re
import shlex
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import jax
from absl import flags

from jaxproto.cli import config_command, import_flag
from jaxproto.errors import UserError

AXIS = (
    "FIELD=VALUES, once for each axis: a,b,c; 0:10; log:1e-3:1e1:5; lin:0:1:5; fields "
    "that change together as a=1,2+b=3,4"
)
AT_ONCE = (
    "auto (threads on CPU, all elsewhere), one, threads, all (as one program, as many "
    "as fit into memory) or a number (as one program)"
)
LAUNCHER = (
    "local (this process), print (a command per part, for a queue such as SLURM's; "
    "trains nothing) or ray (tasks of Ray; work directories, data and the folder of "
    "this command have the same absolute paths on all machines)"
)
PARTS = (
    "number of parts of the cells for print and ray; 0: with print one for each set of "
    "programs, with ray as many as can run at once"
)
ADDRESS = "Ray cluster: auto or HOST:PORT; without it, Ray starts on this machine"


class SweepFlags(NamedTuple):
    """Functions that read the flags of a sweep."""

    is_requested: Callable[[], bool]
    run: Callable  # config, outdir, grace, options -> whether every cell has finished


class LaunchFlags(NamedTuple):
    """The flags of a sweep in parts."""

    launcher: flags.FlagHolder
    part: flags.FlagHolder
    parts: flags.FlagHolder
    cpus: flags.FlagHolder
    gpus: flags.FlagHolder
    address: flags.FlagHolder


def define_flags(always: bool = False) -> SweepFlags:
    """Defines the flags.

    Args:
      always: run a sweep even without --sweep, with the axes of the file.
    """
    axes_flag = flags.DEFINE_multi_string("sweep", [], AXIS)
    at_once = flags.DEFINE_string("cells_at_once", "auto", AT_ONCE)
    launch = _define_launch()

    def run(config, outdir: str, grace: float, options: Mapping) -> bool:
        from jaxproto import sweeps
        from jaxproto.config import files

        _check_flags(launch)
        if launch.launcher.value == "ray":  # this process trains nothing
            jax.config.update("jax_platforms", "cpu")
        axes = axes_flag.value or files.sweep_axes(config_command.config_file())
        how = sweeps.SweepOptions(at_once.value, True, grace, **options)
        plain = config_command.plain_config()
        if launch.launcher.value == "print":
            return _print_commands(config, axes, outdir, plain, launch.parts.value)
        if launch.launcher.value == "ray":
            result = _sweep_on_ray(config, axes, outdir, how, plain, launch)
        else:
            part = {"plain": plain, "share": _parse_part(launch.part.value)}
            result = sweeps.sweep(config, axes, outdir, None, how, **part)
        return _print_result(result, config)

    def is_requested() -> bool:
        sweep = always or bool(axes_flag.value)
        for flag in () if sweep else (at_once, *launch):
            if flag.present:
                raise UserError(
                    f"--{flag.name}={flag.value} is for a sweep: add its axes, such as "
                    "--sweep=seed=0,1,2, or leave it out."
                )
        return sweep

    return SweepFlags(is_requested, run)


def _print_result(result, config) -> bool:
    """Prints the result of a sweep; returns whether every ended cell has finished."""
    from jaxproto.storage.status import status_of
    from jaxproto.sweeps import outputs

    for path in result.files:
        sys.stdout.write(f"written to {path}\n")
    command = _single_run_command(config)
    for line in outputs.closing_lines(result.plan, result.summaries, command):
        sys.stdout.write(line + "\n")
    ended = result.summaries.values()
    return bool(ended) and all(status_of(summary).ok for summary in ended)


def _define_launch() -> LaunchFlags:
    integer, number = flags.DEFINE_integer, flags.DEFINE_float
    return LaunchFlags(
        flags.DEFINE_enum("launcher", "local", ["local", "print", "ray"], LAUNCHER),
        flags.DEFINE_string("part", "0/1", "K/N: the K-th of N parts, from 0"),
        integer("parts", 0, PARTS, lower_bound=0),
        integer("task_cpus", 1, "cores of a part on Ray", lower_bound=1),
        number("task_gpus", 0.0, "GPUs of a part on Ray, such as 0.5", lower_bound=0),
        flags.DEFINE_string("ray_address", "", ADDRESS),
    )


def _check_flags(launch: LaunchFlags):
    """Raises UserError for a flag that the launcher does not use, or a bad one."""
    of_ray = ["task_cpus", "task_gpus", "ray_address"]
    unused = {"local": ["parts", *of_ray], "print": ["part", *of_ray], "ray": ["part"]}
    chosen = launch.launcher.value
    for name in unused[chosen]:
        if flags.FLAGS[name].present:
            raise UserError(
                f"--{name}={flags.FLAGS[name].value} does nothing with "
                f"--launcher={chosen}; leave it out, or choose another launcher."
            )
    gpus = launch.gpus.value
    if gpus > 1 and gpus != int(gpus):
        raise UserError(f"--task_gpus={gpus:g} is neither a whole number nor below 1.")


def _print_commands(config, axes, outdir: str, plain, parts: int) -> bool:
    """Prints the commands to the standard output, and the plan to standard error."""
    from jaxproto import sweeps
    from jaxproto.sweeps import live_table, print_launcher
    from jaxproto.sweeps.sweep import bytes_per_cell

    plan = sweeps.plan(config, sweeps.parse_axes(config, axes), outdir, plain)
    for line in live_table.plan_lines(plan, bytes_per_cell(plan)):
        sys.stderr.write(line + "\n")
    words = [sys.executable, *sys.orig_argv[1:]]
    for line in print_launcher.commands(words, plan, parts):
        sys.stdout.write(line + "\n")
    return True


def _sweep_on_ray(config, axes, outdir: str, how, plain, launch: LaunchFlags):
    """Runs a sweep on Ray."""
    from jaxproto.contrib.ray_launcher.launcher import RayOptions, on_ray

    options = [name for name in flags.FLAGS if name.startswith("jax_")]
    jax_flags = {o: flags.FLAGS[o].value for o in options if flags.FLAGS[o].present}
    address, cpus, gpus = launch.address.value, launch.cpus.value, launch.gpus.value
    cluster = RayOptions(address, cpus, gpus, launch.parts.value, jax_flags)
    return on_ray(config, axes, outdir, how=how, plain=plain, cluster=cluster)


def _single_run_command(config) -> str:
    """Returns the command that runs the configuration without a sweep."""
    from jaxproto.config import builtin, flatten, load

    file = config_command.config_file()
    path, colon, presets = file.partition(":")
    if Path(path).is_relative_to(builtin.folder()):
        path = str(Path(path).relative_to(builtin.folder()).with_suffix(""))
    elif path.startswith(os.getcwd() + os.sep):
        path = os.path.relpath(path)
    fields, default = flatten(config), flatten(load(file))
    fields.pop("imports")  # a flag of its own
    changed = [f"--config.{k}={v}" for k, v in fields.items() if default.get(k) != v]
    files = [f"--import={file}" for file in import_flag.imported]
    command = ["jaxproto", "run", *files, f"--config={path}{colon}{presets}"]
    return shlex.join([*command, *changed])


def _parse_part(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"\d+/\d+", text):
        raise UserError(f"--part={text} is not a part; write K/N, such as --part=0/4.")
    k, n = text.split("/")
    return int(k), int(n)

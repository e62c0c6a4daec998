"""The flags of a sweep, of `main.py`, `jaxproto run` and `jaxproto sweep`."""

import os
import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import jax
from absl import flags

from jaxproto.cli import config_command, import_flag
from jaxproto.errors import UserError

FLAGS = flags.FLAGS
PART_FLAGS = ("parts", "task_cpus", "task_gpus", "ray_address")
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


def define_flags():
    """Defines the flags."""
    flags.DEFINE_multi_string("sweep", [], AXIS)
    flags.DEFINE_string("cells_at_once", "auto", AT_ONCE)
    flags.DEFINE_enum("launcher", "local", ["local", "print", "ray"], LAUNCHER)
    flags.DEFINE_string("part", "0/1", "K/N: the K-th of N parts, from 0")
    flags.DEFINE_integer("parts", 0, PARTS, lower_bound=0)
    flags.DEFINE_integer("task_cpus", 1, "cores of a part on Ray", lower_bound=1)
    gpus = "GPUs of a part on Ray, such as 0.5"
    flags.DEFINE_float("task_gpus", 0.0, gpus, lower_bound=0)
    flags.DEFINE_string("ray_address", "", ADDRESS)


def is_requested() -> bool:
    """Returns whether --sweep is given.

    Raises:
      UserError: another flag of a sweep is given without it.
    """
    if FLAGS.sweep:
        return True
    for name in ("cells_at_once", "launcher", "part", *PART_FLAGS):
        if FLAGS[name].present:
            raise UserError(
                f"--{name}={FLAGS[name].value} is for a sweep: add its axes, such as "
                "--sweep=seed=0,1,2, or leave it out."
            )
    return False


def run(config, outdir: str, grace: float, options: Mapping) -> bool:
    """Runs a sweep or prints its commands; returns whether every cell has finished."""
    from jaxproto.config import files, user_code
    from jaxproto.lab import sweeps

    _check_flags()
    if FLAGS.launcher == "ray":  # this process trains nothing
        jax.config.update("jax_platforms", "cpu")
    axes = FLAGS.sweep or files.sweep_axes(config_command.config_file())
    cache = not user_code.patched()
    sweep_options = sweeps.SweepOptions(FLAGS.cells_at_once, cache, grace, **options)
    plain = config_command.plain_config()
    if FLAGS.launcher == "print":
        return _print_commands(config, axes, outdir, plain)
    if FLAGS.launcher == "ray":
        result = _sweep_on_ray(config, axes, outdir, sweep_options, plain)
    else:
        part = {"plain": plain, "share": _parse_part(FLAGS.part)}
        result = sweeps.sweep(config, axes, outdir, None, sweep_options, **part)
    return _print_result(result, config)


def _print_result(result, config) -> bool:
    """Prints the result of a sweep; returns whether every ended cell has finished."""
    from jaxproto.lab.sweeps import outputs
    from jaxproto.storage.status import status_of

    for path in result.files:
        sys.stdout.write(f"written to {path}\n")
    command = _single_run_command(config)
    for line in outputs.closing_lines(result.plan, result.summaries, command):
        sys.stdout.write(line + "\n")
    ended = result.summaries.values()
    return bool(ended) and all(status_of(summary).ok for summary in ended)


def _check_flags():
    """Raises UserError for a flag that the launcher does not use, or a wrong value."""
    ray_flags = PART_FLAGS[1:]
    unused = {"local": PART_FLAGS, "print": ("part", *ray_flags), "ray": ("part",)}
    for name in unused[FLAGS.launcher]:
        if FLAGS[name].present:
            raise UserError(
                f"--{name}={FLAGS[name].value} does nothing with --launcher="
                f"{FLAGS.launcher}; leave it out, or choose another launcher."
            )
    gpus = FLAGS.task_gpus
    if gpus > 1 and gpus != int(gpus):
        raise UserError(f"--task_gpus={gpus:g} is neither a whole number nor below 1.")


def _print_commands(config, axes, outdir: str, plain) -> bool:
    """Prints the commands to the standard output, and the plan to standard error."""
    from jaxproto.lab import sweeps
    from jaxproto.lab.sweeps import live_table, print_launcher
    from jaxproto.lab.sweeps.sweep import bytes_per_cell

    parsed, same_code = sweeps.parse_axes(config, axes), FLAGS.same_code
    plan = sweeps.plan(config, parsed, outdir, plain, same_code)
    for line in live_table.plan_lines(plan, bytes_per_cell(plan)):
        sys.stderr.write(line + "\n")
    words = [sys.executable, *sys.orig_argv[1:]]
    for line in print_launcher.commands(words, plan, FLAGS.parts):
        sys.stdout.write(line + "\n")
    return True


def _sweep_on_ray(config, axes, outdir: str, sweep_options, plain):
    """Runs a sweep on Ray."""
    from jaxproto.lab.sweeps.ray_launcher.launcher import RayOptions, on_ray

    names = [name for name in FLAGS if name.startswith("jax_")]
    jax_flags = {name: FLAGS[name].value for name in names if FLAGS[name].present}
    resources = FLAGS.ray_address, FLAGS.task_cpus, FLAGS.task_gpus
    cluster = RayOptions(*resources, FLAGS.parts, jax_flags)
    return on_ray(config, axes, outdir, how=sweep_options, plain=plain, cluster=cluster)


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
    imports = [f"--import={name}" for name in import_flag.imported]
    command = ["jaxproto", "run", *imports, f"--config={path}{colon}{presets}"]
    return shlex.join([*command, *changed])


def _parse_part(text: str) -> tuple[int, int]:
    if not re.fullmatch(r"\d+/\d+", text):
        raise UserError(f"--part={text} is not a part; write K/N, such as --part=0/4.")
    k, n = text.split("/")
    return int(k), int(n)

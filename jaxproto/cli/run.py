"""Runs one experiment, or with --sweep many; the same command resumes."""

import contextlib
import io
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from absl import flags

from jaxproto import plugins
from jaxproto.cli import config_command
from jaxproto.errors import UserError
from jaxproto.training import signals

GRACE = (
    "seconds that the running round may still take after SIGTERM, so that it is saved; "
    f"default {signals.GRACE:g}, 0 ends at once"
)
DEVICES = (
    "devices that share the clients: all, a number, or indices such as 0,2; default "
    "all, on CPU one"
)
COORDINATOR = (
    "HOST:PORT of the first of several processes that share one run, or auto (SLURM, "
    "TPU pods)"
)
_WRITERS = ", ".join(["csv", *plugins.table("WRITERS")])
WRITERS = (
    f"logging backends, joined by commas: {_WRITERS}; metrics.jsonl is always written"
)
DEBUG = (
    "one round of one client with two batches, without compilation, so that print and "
    "breakpoint() work inside a method; prints the shapes of every stage and writes no "
    "file"
)
SAME_CODE = (
    "go on with a run although code of yours, such as its method, has changed since"
)
QUIET = "print errors alone; the results are in summary.json"
RESUME_HINT = "the same command resumes from the last checkpoint"


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes an experiment or a sweep; exit code 1 unless it finishes."""
    config_command.run_command(define_flags(), prog, arguments, __doc__)


def define_flags(always: str = "") -> Callable:
    """Defines the flags of a run and of its modes; returns the function that runs it.

    Args:
      always: name in `plugins.table("MODES")` of a mode that runs without its flag.
    """
    places = plugins.table("MODES")
    modes = {name: pkgutil.resolve_name(place) for name, place in places.items()}
    path = flags.DEFINE_string(
        "workdir",
        "",
        "default runs/<config>-<dataset>-seed<n>[-<changes>]; of a sweep, the folder "
        "of its cells",
    )
    grace = flags.DEFINE_float("grace", signals.GRACE, GRACE, lower_bound=0.0)
    devices = flags.DEFINE_string("devices", "", DEVICES)
    flags.DEFINE_string("coordinator", "", COORDINATOR)
    flags.DEFINE_integer("processes", 0, "with --coordinator: their number")
    flags.DEFINE_integer("process", -1, "with --coordinator: index, from 0")
    writers = flags.DEFINE_list("writers", [], WRITERS)
    debug = flags.DEFINE_bool("debug", False, DEBUG)
    quiet = flags.DEFINE_bool("quiet", False, QUIET)
    same_code = flags.DEFINE_bool("same_code", False, SAME_CODE)
    for mode in modes.values():
        mode.define_flags()

    def execute(config) -> bool:
        chosen = [n for n, m in modes.items() if n == always or m.is_requested()]
        if len(chosen) > 1:
            raise UserError(f"{' and '.join(chosen)} exclude each other: leave one.")
        if debug.value:
            return _debug(config, chosen)
        signals.set_exit_hint(RESUME_HINT)
        _join_processes(bool(chosen))
        options = {
            "devices": devices.value,
            "callbacks": writers.value,
            "same_code": same_code.value,
        }
        run = modes[chosen[0]].run if chosen else _run
        out = io.StringIO() if quiet.value else sys.stdout
        try:
            with contextlib.redirect_stdout(out):
                return not run(config, path.value, grace.value, options)
        except signals.StoppedBySignal as e:
            signals.exit_after_stop(e)

    return execute


def _join_processes(is_sweep: bool):
    """Joins the processes of a run, if --coordinator is given."""
    from jaxproto.training import multihost, stderr_filter

    address = flags.FLAGS.coordinator
    for name in ("processes", "process"):
        flag = flags.FLAGS[name]
        if flag.present and address in ("", multihost.AUTO):
            raise UserError(
                f"--{name}={flag.value} needs --coordinator=HOST:PORT, where the first "
                "process listens."
            )
    if address and is_sweep:
        raise UserError(
            f"--coordinator={address} is for one run by several processes; cells of a "
            "sweep go to several machines with --part or --launcher, and baselines "
            "train one after the other."
        )
    if address:
        stderr_filter.install(f"error: {multihost.LOST}.")
        multihost.initialize(address, flags.FLAGS.processes, flags.FLAGS.process)


def _debug(config, chosen: Sequence[str]) -> bool:
    """Computes one round for a debugger; returns False, for exit code 0."""
    from jaxproto.training.debug import debug

    if chosen:
        raise UserError(f"--debug is for one run: leave the flag --{chosen[0]} out.")
    debug(config)
    return False


def run_folder(config, path: str, same_code: bool) -> Path:
    """Returns the folder of a run: `path`, or the default one for the user's code."""
    from jaxproto.devices.mesh import available_devices
    from jaxproto.storage.default_workdir import for_code, resolve_workdir

    available_devices()
    if path:
        return Path(path)
    home = resolve_workdir(config, config_command.plain_config())
    return for_code(home, config, same_code, lambda s: sys.stdout.write(f"{s}\n"))


def _run(config, path: str, grace: float, options: Mapping) -> bool:
    """Runs an experiment; returns whether it has finished."""
    from jaxproto.config import user_code
    from jaxproto.storage.status import status_of
    from jaxproto.training import multihost, runner

    workdir = run_folder(config, path, options["same_code"])
    cache = not user_code.patched()

    def train() -> bool:
        summary = runner.run(config, workdir, cache=cache, grace=grace, **options)
        return status_of(summary).ok

    return multihost.run_together(train)

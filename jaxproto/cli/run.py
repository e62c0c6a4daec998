"""Runs one experiment, or with --sweep many; the same command again resumes."""

from collections.abc import Callable, Mapping, Sequence

from absl import flags

from jaxproto.cli import config_command
from jaxproto.errors import UserError
from jaxproto.training import signals

GRACE = (
    "seconds that the running round may still take after SIGTERM, so that it is saved; "
    f"default {signals.GRACE:g}, 0 ends at once"
)
DEVICES = (
    "that share the clients: all, a number, or places such as 0,2; default all, on CPU "
    "one"
)
COORDINATOR = (
    "HOST:PORT of the first of several processes that share one run, or auto (SLURM, "
    "TPU pods)"
)
WRITERS = (
    "who else is told of the run, joined by commas: csv, tensorboard, wandb, mlflow, "
    "aim; metrics.jsonl is always written"
)
RESUME_HINT = "the same command resumes from the last checkpoint"


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes an experiment or a sweep; exit code 1 unless it finishes."""
    show = define_flags()
    config_command.run_command(show, prog, arguments, __doc__)


def define_flags(always: bool = False) -> Callable:
    """Defines the flags of a run and of a sweep; returns what does either.

    Args:
      always: a sweep even without --sweep.
    """
    from jaxproto.cli import sweep_flags

    path = flags.DEFINE_string(
        "workdir",
        "",
        "default runs/<config>-<dataset>-seed<n>[-<changes>]; of a sweep, the folder "
        "of all its cells",
    )
    grace = flags.DEFINE_float("grace", signals.GRACE, GRACE, lower_bound=0.0)
    on = flags.DEFINE_string("devices", "", DEVICES)
    join = _define_hosts()
    writers = flags.DEFINE_list("writers", [], WRITERS)
    sweep = sweep_flags.define_flags(always)

    def given() -> dict:
        return {"devices": on.value, "callbacks": writers.value}

    def show(config) -> bool:
        signals.set_exit_hint(RESUME_HINT)
        join(sweep.is_sweep())
        try:
            if sweep.is_sweep():
                return not sweep.run(config, path.value, grace.value, given())
            return not _run(config, path.value, grace.value, given())
        except signals.StoppedBySignal as e:
            signals.exit_after_stop(e)

    return show


def _define_hosts() -> Callable[[bool], None]:
    """The flags of a run by several processes, and what joins them."""
    coordinator = flags.DEFINE_string("coordinator", "", COORDINATOR)
    processes = flags.DEFINE_integer("processes", 0, "with --coordinator: how many")
    process = flags.DEFINE_integer("process", -1, "with --coordinator: which, from 0")

    def join(sweep: bool):
        from jaxproto.training import multihost

        address = coordinator.value
        for flag in (processes, process):
            if flag.present and address in ("", multihost.AUTO):
                raise UserError(
                    f"--{flag.name}={flag.value} needs --coordinator=HOST:PORT, where "
                    "the first process listens."
                )
        if address and sweep:
            raise UserError(
                f"--coordinator={address} is for one run by several processes; cells "
                "of a sweep go to several machines with --part or --launcher."
            )
        if address:
            multihost.initialize(address, processes.value, process.value)

    return join


def _run(config, path: str, grace: float, given: Mapping) -> bool:
    """Whether the run has ended well."""
    from jaxproto.storage import default_workdir
    from jaxproto.storage.status import status_of
    from jaxproto.training import multihost, program_cache, runner

    where = path or default_workdir.resolve_workdir(
        config, config_command.plain_config()
    )
    cache = program_cache.disk_cache
    with multihost.fail_together():
        summary = runner.run(config, where, cache=cache, grace=grace, **given)
        well = status_of(summary).ok
        multihost.exit_secondary_processes(0 if well else 1)
    return well

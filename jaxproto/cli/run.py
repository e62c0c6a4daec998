"""Runs one experiment, or with --sweep many; the same command again resumes."""

from collections.abc import Callable, Sequence

from absl import flags

from jaxproto.cli import configured
from jaxproto.training import stopping

GRACE = (
    "seconds that the running round may still take after SIGTERM, so that it is saved; "
    f"default {stopping.GRACE:g}, 0 ends at once"
)
AGAIN = "the same command resumes from the last checkpoint"


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes an experiment or a sweep; exit code 1 unless it finishes."""
    show = define()
    configured.start(show, prog, arguments, __doc__)


def define(always: bool = False) -> Callable:
    """Defines the flags of a run and of a sweep; returns what does either.

    Args:
      always: a sweep even without --sweep.
    """
    from jaxproto.cli import sweeping

    path = flags.DEFINE_string(
        "workdir",
        "",
        "default runs/<config>-<dataset>-seed<n>[-<changes>]; of a sweep, the folder "
        "of all its cells",
    )
    grace = flags.DEFINE_float("grace", stopping.GRACE, GRACE, lower_bound=0.0)
    sweep = sweeping.define(always)

    def show(config) -> bool:
        stopping.then(AGAIN)
        try:
            if sweep.asked():
                return not sweep.run(config, path.value, grace.value)
            return not _run(config, path.value, grace.value)
        except stopping.Stopped as e:
            stopping.end(e)

    return show


def _run(config, path: str, grace: float) -> bool:
    """Whether the run has finished."""
    from jaxproto.storage import naming
    from jaxproto.training import program_cache, runner

    where = path or naming.chosen(config, configured.plain())
    cache = program_cache.disk_cache
    summary = runner.run(config, where, cache=cache, grace=grace)
    return summary["status"] == "finished"

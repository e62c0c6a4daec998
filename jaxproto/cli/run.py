"""Runs one experiment; the same command again resumes it."""

from collections.abc import Sequence

from absl import flags

from jaxproto.cli import configured
from jaxproto.training import stopping

GRACE = (
    "seconds that the running round may still take after SIGTERM, so that it is saved; "
    f"default {stopping.GRACE:g}, 0 ends at once"
)


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes an experiment; exit code 1 unless it finishes."""
    from jaxproto.training import program_cache, runner

    path = flags.DEFINE_string("workdir", "", "default runs/<config>-<dataset>-seed<n>")
    grace = flags.DEFINE_float("grace", stopping.GRACE, GRACE, lower_bound=0.0)

    def run(config) -> bool:
        cache = program_cache.disk_cache
        try:
            summary = runner.run(config, path.value, cache=cache, grace=grace.value)
        except stopping.Stopped as e:
            stopping.end(e)
        return summary["status"] != "finished"

    stopping.then("the same command resumes from the last checkpoint")
    configured.start(run, prog, arguments, __doc__)

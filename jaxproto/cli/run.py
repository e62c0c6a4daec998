"""Runs one experiment; the same command again resumes it."""

from collections.abc import Sequence

from absl import flags

from jaxproto.cli import configured


def main(prog: str, arguments: Sequence[str]):
    """Runs or resumes an experiment; exit code 1 unless it finishes."""
    from jaxproto.storage import workdir
    from jaxproto.training import program_cache, runner

    path = flags.DEFINE_string(
        "workdir", "", "default runs/<config>-<dataset>-seed<n>[-<changes>]"
    )

    def run(config) -> bool:
        where = path.value or workdir.chosen(config, configured.plain())
        summary = runner.run(config, where, cache=program_cache.disk_cache)
        return summary["status"] != "finished"

    after = "the same command resumes from the last checkpoint"
    configured.start(run, prog, arguments, __doc__, after)

"""Runs one experiment: python main.py --config=configs/protonorm.py:spiral

--config.method.upscale=10.0 overrides a field. The same command again resumes.
"""

from absl import flags

from jaxproto import cli
from jaxproto.training import program_cache, runner

WORKDIR = flags.DEFINE_string("workdir", "", "default runs/<config>-<dataset>-seed<n>")


def run(config) -> bool:
    """Runs or resumes it; whether it failed."""
    summary = runner.run(config, WORKDIR.value, keep=program_cache.beside)
    return summary["status"] != "finished"


if __name__ == "__main__":
    cli.start(run, "the same command resumes from the last checkpoint")

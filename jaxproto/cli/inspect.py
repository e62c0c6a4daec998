"""Shows what the data of a configuration look like, without training."""

from collections.abc import Sequence

from absl import flags

from jaxproto.cli import config_command
from jaxproto.reporting.analysis import data_report
from jaxproto.storage import default_workdir


def main(prog: str, arguments: Sequence[str]):
    """Prints who gets what, and draws the partition and examples."""
    out = flags.DEFINE_string("out", "", "default beside the work directory of the run")
    every = flags.DEFINE_bool("all", False, "nominal costs of every method")

    def show(config):
        run = default_workdir.default_workdir(config, config_command.plain_config())
        beside = run.with_name(f"{run.name}-inspect")
        data_report.show(config, out.value or beside, every.value)

    config_command.run_command(show, prog, arguments, __doc__)

"""Scalars and bytes of a round: the papers' formulas, and what is sent indeed.

Nothing is trained.
"""

from collections.abc import Sequence

from absl import flags

from jaxproto.cli import config_command, table_output
from jaxproto.reporting.analysis import cost


def main(prog: str, arguments: Sequence[str]):
    """Prints the cost of one method, or of every method side by side."""
    every = flags.DEFINE_bool("all", False, "every method side by side")
    form = table_output.define_format_flag()

    def show(config):
        table_output.print_table(cost.view(config, every.value), form.value)

    config_command.run_command(show, prog, arguments, __doc__.strip())

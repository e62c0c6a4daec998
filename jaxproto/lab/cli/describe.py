"""Commands that describe a configuration without training."""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from jaxproto.cli import config_command, table_output


def cost(prog: str, arguments: Sequence[str]):
    """Prints the scalars and bytes of a round: by the papers' formulas, and as sent."""
    from jaxproto.lab.analysis.cost import view

    all_methods = flags.DEFINE_bool("all", False, "every method side by side")
    form = table_output.define_format_flag()

    def show(config):
        table_output.print_table(view(config, all_methods.value), form.value)

    config_command.run_command(show, prog, arguments, cost.__doc__)


def disclosure(prog: str, arguments: Sequence[str]):
    """Prints every field that crosses the network, and what it reveals."""
    from jaxproto.attacks.disclosure import view as disclosure_view
    from jaxproto.nodes import data_schema

    all_methods = flags.DEFINE_bool("all", False, "every method, one after the other")
    agreement = flags.DEFINE_string(
        "agreement", "", "with data.name=nodes: agreement.json of the server's folder"
    )
    form = table_output.define_format_flag()

    def show(config):
        schema = data_schema.read(Path(agreement.value)) if agreement.value else None
        view = disclosure_view(config, all_methods.value, schema)
        table_output.print_table(view, form.value)

    config_command.run_command(show, prog, arguments, disclosure.__doc__)


def inspect(prog: str, arguments: Sequence[str]):
    """Prints the partition of the examples; draws it, and examples of each class."""
    from jaxproto.lab.analysis import data_report
    from jaxproto.storage.default_workdir import default_workdir

    out = flags.DEFINE_string("out", "", "default: beside the run's work directory")
    all_methods = flags.DEFINE_bool("all", False, "cost of a round of every method")

    def show(config):
        workdir = default_workdir(config, config_command.plain_config())
        default = workdir.with_name(f"{workdir.name}-inspect")
        data_report.inspect(config, out.value or default, all_methods.value)

    config_command.run_command(show, prog, arguments, inspect.__doc__)

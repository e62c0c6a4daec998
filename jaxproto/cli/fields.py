"""Every field that crosses the network under a configuration, and what it reveals."""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from jaxproto.cli import config_command, table_output
from jaxproto.data import node_schema
from jaxproto.reporting.analysis import disclosure
from jaxproto.training import privacy_ledger


def main(prog: str, arguments: Sequence[str]):
    """Prints the fields of the messages."""
    every = flags.DEFINE_bool("all", False, "every method, one after the other")
    path = flags.DEFINE_string(
        "agreement", "", "with data.name=nodes: agreement.json of the server's folder"
    )
    form = table_output.define_format_flag()

    def show(config):
        made = node_schema.read(Path(path.value)) if path.value else None
        table_output.print_table(
            disclosure.view(config, every.value, _spent, made), form.value
        )

    config_command.run_command(show, prog, arguments, __doc__)


def _spent(config, exp) -> dict:
    """What a whole run spends of privacy."""
    return privacy_ledger.privacy_ledger(config, exp)(config.rounds)["privacy"]

"""Every field that crosses the network under a configuration, and what it reveals."""

from collections.abc import Sequence
from pathlib import Path

from absl import flags

from jaxproto.cli import configured, formats
from jaxproto.data import agreement
from jaxproto.report import disclosure
from jaxproto.training import account


def main(prog: str, arguments: Sequence[str]):
    """Prints the fields of the messages."""
    every = flags.DEFINE_bool("all", False, "every method, one after the other")
    path = flags.DEFINE_string(
        "agreement", "", "with data.name=nodes: agreement.json of the server's folder"
    )
    form = formats.flag()

    def show(config):
        made = agreement.read(Path(path.value)) if path.value else None
        formats.show(disclosure.view(config, every.value, _spent, made), form.value)

    configured.start(show, prog, arguments, __doc__)


def _spent(config, exp) -> dict:
    """What a whole run spends of privacy."""
    return account.ledger(config, exp)(config.rounds)["privacy"]

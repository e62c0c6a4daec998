"""Every field that crosses the network under a configuration, and what it reveals."""

from collections.abc import Sequence

from rich.console import Console

from jaxproto.cli import configured
from jaxproto.report import disclosure


def main(prog: str, arguments: Sequence[str]):
    """Prints the fields of the messages."""
    configured.start(
        lambda config: disclosure.show(config, Console()), prog, arguments, __doc__
    )

"""Every field that crosses the network under a configuration, and what it reveals."""

from collections.abc import Sequence

from absl import flags

from jaxproto.cli import configured, formats
from jaxproto.report import disclosure


def main(prog: str, arguments: Sequence[str]):
    """Prints the fields of the messages."""
    every = flags.DEFINE_bool("all", False, "every method, one after the other")
    form = formats.flag()

    def show(config):
        formats.show(disclosure.view(config, every.value), form.value)

    configured.start(show, prog, arguments, __doc__)

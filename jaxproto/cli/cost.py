"""Scalars and bytes of a round: the papers' formulas, and what is sent indeed.

Nothing is trained.
"""

from collections.abc import Sequence

from absl import flags
from rich.console import Console

from jaxproto.cli import configured
from jaxproto.report import cost


def main(prog: str, arguments: Sequence[str]):
    """Prints the cost of one method, or of every method side by side."""
    every = flags.DEFINE_bool("all", False, "every method side by side")

    def show(config):
        cost.show(config, every.value, Console())

    configured.start(show, prog, arguments, __doc__.strip())

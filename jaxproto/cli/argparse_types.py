"""Arguments of the commands that need no configuration."""

import argparse
from pathlib import Path

from jaxproto.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others."""

    def error(self, message: str):
        """Raises UserError."""
        usage = " ".join(self.format_usage().split())
        raise UserError(f"{message} ({usage})")


def new_file(name: str) -> Path:
    """The type of an argument: a file to write, which must not be there.

    Raises:
      ArgumentTypeError: it is; a `Parser` makes a UserError of that.
    """
    if Path(name).exists():
        raise argparse.ArgumentTypeError(
            f"{name} is there already: delete it or name another file"
        )
    return Path(name)

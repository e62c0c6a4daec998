"""Parser and argument types of the commands that need no configuration."""

import argparse
import os
from pathlib import Path

from jaxproto.errors import UserError


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are a UserError in one line."""

    def error(self, message: str):
        """Raises UserError."""
        self.color = False  # from Python 3.14 on the usage has codes of colours
        usage = " ".join(self.format_usage().split())
        raise UserError(f"{message} ({usage})")


def new_file(name: str) -> Path:
    """Parses an argument that names a file to write, which must not exist."""
    if os.path.exists(name):
        raise argparse.ArgumentTypeError(
            f"{name} exists already: delete it or name another file"
        )
    return Path(name)

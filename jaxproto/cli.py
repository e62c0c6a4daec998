"""What main.py and commands such as `python -m jaxproto.report.nominal` share."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

import jax
import ml_collections
from absl import app, flags, logging
from ml_collections import config_flags

from jaxproto import config
from jaxproto.errors import UserError

NEUTRAL = (
    "data.name without a data set after the colon of --config: the preset `neutral` "
    "applies (20 clients, batch 32, learning rate 0.01, networks for images).\n"
)


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


def start(show: Callable[[ml_collections.ConfigDict], bool | None], after: str = ""):
    """Parses --config=FILE.py:ARG with its overrides, and hands it on.

    Args:
      show: called with the checked configuration; True is exit code 1. A UserError
        becomes one line and exit code 1.
      after: what to know when the process is interrupted.
    """
    jax.config.parse_flags_with_absl()  # before a required flag exists
    chosen = config_flags.DEFINE_config_file("config", lock_config=True)
    flags.mark_flag_as_required("config")

    def parse(argv):
        config.check_flags(argv[1:])
        said = [argv[0], *config.with_neutral(argv[1:])]
        if said != argv:
            sys.stdout.write(NEUTRAL)
        return app.parse_flags_with_usage(said)

    def main(_):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)  # JAX and matplotlib chat otherwise
        config.check(chosen.value)
        return show(chosen.value) is True

    try:
        app.run(main, flags_parser=parse)
    except UserError as e:
        sys.exit(f"error: {e}")
    except KeyboardInterrupt:
        sys.exit(f"interrupted: {after}" if after else "interrupted")

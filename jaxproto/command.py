"""What the commands beside main.py share, such as `python -m jaxproto.comm`."""

import argparse
import sys
from collections.abc import Callable

import jax
import ml_collections
from absl import app, flags, logging
from ml_collections import config_flags

from jaxproto import config
from jaxproto.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, as all others."""

    def error(self, message: str):
        """Raises UserError."""
        usage = " ".join(self.format_usage().split())
        raise UserError(f"{message} ({usage})")


def start(show: Callable[[ml_collections.ConfigDict], None]):
    """Parses --config=FILE.py:ARG with its overrides, and shows what it is asked for.

    Args:
      show: called with the checked configuration. A UserError becomes one line and
        exit code 1.
    """
    jax.config.parse_flags_with_absl()  # before a required flag exists
    chosen = config_flags.DEFINE_config_file("config", lock_config=True)
    flags.mark_flag_as_required("config")

    def parse(argv):
        config.check_flags(argv[1:])
        return app.parse_flags_with_usage(argv)

    def main(_):
        if not flags.FLAGS["verbosity"].present:
            logging.set_verbosity(logging.WARNING)  # JAX chats otherwise
        config.check(chosen.value)
        show(chosen.value)

    try:
        app.run(main, flags_parser=parse)
    except UserError as e:
        sys.exit(f"error: {e}")

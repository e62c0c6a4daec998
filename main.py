"""Runs one experiment: python main.py --config=configs/protonorm.py:spiral

--config.method.upscale=10.0 overrides a field. The same command again resumes.
"""

import sys

import jax
from absl import app, flags, logging
from ml_collections import config_flags

from jaxproto import config, runner, traced
from jaxproto.errors import UserError

jax.config.parse_flags_with_absl()  # before a required flag exists
CONFIG = config_flags.DEFINE_config_file("config", lock_config=True)
WORKDIR = flags.DEFINE_string("workdir", "", "default runs/<config>-<dataset>-seed<n>")
flags.mark_flag_as_required("config")


def parse(argv):
    """Parses the flags; the name of a file, preset or field that is not there fails."""
    config.check_flags(argv[1:])
    return app.parse_flags_with_usage(argv)


def main(_):
    if not flags.FLAGS["verbosity"].present:
        logging.set_verbosity(logging.WARNING)  # JAX and matplotlib chat otherwise
    summary = runner.run(CONFIG.value, WORKDIR.value, keep=traced.beside)
    sys.exit(summary["status"] != "finished")


if __name__ == "__main__":
    try:
        app.run(main, flags_parser=parse)
    except UserError as e:
        sys.exit(f"error: {e}")
    except KeyboardInterrupt:
        sys.exit("interrupted: the same command resumes from the last checkpoint")

"""The flag --baselines of `main.py` and `jaxproto run`."""

import re
import shlex
import sys
from collections.abc import Mapping

from absl import flags

from jaxproto.cli.run import run_folder

FLAGS = flags.FLAGS
BASELINES = (
    "methods that are trained first on the same clients, joined by commas, such as "
    "local,fedavg; a table and a sentence say what the run shows beside them"
)


def define_flags():
    """Defines the flag."""
    flags.DEFINE_list("baselines", [], BASELINES)


def is_requested() -> bool:
    """Returns whether --baselines is given."""
    return bool(FLAGS.baselines)


def run(config, path: str, grace: float, options: Mapping) -> bool:
    """Trains the baselines and the run; returns whether the run has finished."""
    from jaxproto.config import user_code
    from jaxproto.lab import baselines
    from jaxproto.storage.status import status_of
    from jaxproto.training import runner

    cache = not user_code.patched()

    def train(made, home, console):
        run_options = {"cache": cache, "grace": grace, "console": console, **options}
        return runner.run(made, home, **run_options)

    def say(line):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()

    home, names = run_folder(config, path, options["same_code"]), FLAGS.baselines
    summary = baselines.run_beside(config, home, names, path, train, say)
    if more := baselines.next_names(names, config.method.name):
        say(f"next: {next_command(more)}")
    return status_of(summary).ok


def next_command(names: list[str]) -> str:
    """Returns the command of this process with other baselines."""
    text = shlex.join(sys.orig_argv)
    return re.sub(r"--baselines[= ]\S+", f"--baselines={','.join(names)}", text)

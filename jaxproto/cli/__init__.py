"""The command line: `python -m jaxproto COMMAND`, and `main.py` for its command `run`.

Each command is a module of this package with `main(prog, arguments)`; it is imported
when it is called, so that `--help` of one does not wait for the libraries of another.
"""

import errno
import importlib
import sys
from collections.abc import Sequence

from jaxproto.errors import UserError, choose_from
from jaxproto.training import signals

COMMANDS = {  # name -> what it does
    "run": "run or resume one experiment: what main.py does",
    "flower": "one experiment with clients of their own, by Flower",
    "sweep": "run or resume one experiment for every value of some fields",
    "inspect": "what the data of a configuration look like: who gets what, pictures",
    "cost": "scalars and bytes of a round, without training",
    "fields": "every field that crosses the network, and what it reveals",
    "leak": "what uploads of finished runs give away: attacks, tables, pictures",
    "compare": "one table of finished runs",
    "plot": "a picture of finished runs, as in the papers",
    "report": "one HTML page to look at, of a run, several or a sweep",
    "prepare": "download and prepare a data set for data.name=tfds:NAME",
    "cache": "what the cache of decoded data sets holds",
    "list": "the names that a configuration can choose from",
}
DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)  # of a disk
MODULES = {"list": "names"}  # where it is not named as the command


def usage() -> str:
    """All commands, a line each."""
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{about}" for name, about in COMMANDS.items()]
    head = "usage: jaxproto COMMAND ... (or: python -m jaxproto COMMAND ...)"
    tail = "`jaxproto COMMAND --help` lists the flags of one."
    return "\n".join([head, "", *lines, "", tail]) + "\n"


def main(arguments: Sequence[str] | None = None):
    """Calls the command that the first argument names, and exits.

    A UserError becomes one line and exit code 1.

    Args:
      arguments: command and its arguments; none takes those of the process, whose
        signals are watched from then on.
    """
    if arguments is None:
        signals.install_signal_handlers()
    given = list(sys.argv[1:] if arguments is None else arguments)
    if not given or given[0] in ("-h", "--help", "help"):
        sys.stdout.write(usage())
        sys.exit(0 if given else 1)
    name, *rest = given
    call(name, f"jaxproto {name}", rest)


def call(name: str, prog: str, arguments: Sequence[str]):
    """Calls one command and exits with its code.

    Args:
      prog: what the user typed, for messages.
    """
    try:
        choose_from("command", name, COMMANDS)
        command = importlib.import_module(f"{__name__}.{MODULES.get(name, name)}")
        sys.exit(command.main(prog, list(arguments)))
    except UserError as e:
        sys.exit(f"error: {e}")
    except OSError as e:  # what no command has expected
        if e.errno not in DISK_FULL_ERRORS:
            raise
        what = f"cannot write {e.filename or 'the output'}: {e.strerror}"
        sys.exit(f"error: {what}. Make room there; the same command then goes on.")
    except KeyboardInterrupt as e:  # in a process whose signals are not watched
        after = str(e) or signals.exit_hint()
        sys.stderr.write(": ".join(filter(None, ["interrupted", after])) + "\n")
        sys.exit(130)

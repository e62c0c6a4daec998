"""The command line: `python -m jaxproto COMMAND`, and `main.py` for its command `run`.

Each command is a function of a module, called with `(prog, arguments)`. The module is
imported when the command is called, so that `--help` of one command does not wait for
the libraries of another. Optional layers add commands: `jaxproto/plugins.py`.
"""

import contextlib
import errno
import io
import os
import pkgutil
import select
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import jaxproto
from jaxproto import plugins
from jaxproto.cli import import_flag
from jaxproto.errors import UserError, choose_from, shorten
from jaxproto.training import signals

COMMANDS = {  # name -> function, what it does
    "run": (
        "jaxproto.cli.run:main",
        "run or resume one experiment: what main.py does",
    ),
    **plugins.table("COMMANDS"),
    "list": (
        "jaxproto.cli.list_names:main",
        "the names that a configuration can choose from",
    ),
    "new": (
        "jaxproto.cli.new:main",
        "write a method of your own to start from, with a test",
    ),
    "completion": (
        "jaxproto.cli.completion:main",
        "print a script that completes commands in bash or zsh",
    ),
}
DISK_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def usage() -> str:
    """Returns the usage text, with a line per command."""
    width = max(map(len, COMMANDS)) + 2
    lines = [f"  {name:<{width}}{about}" for name, (_, about) in COMMANDS.items()]
    head = "usage: jaxproto COMMAND ... (or: python -m jaxproto COMMAND ...)"
    tail = (
        "`jaxproto COMMAND --help` lists the flags of a command. --import=FILE.py, for "
        "every command, imports a file that registers your methods and networks."
    )
    return "\n".join([head, "", *lines, "", tail]) + "\n"


def main(arguments: Sequence[str] | None = None):
    """Calls the command that the first argument names, and exits.

    A UserError becomes one line and exit code 1.

    Args:
      arguments: command and its arguments; None takes those of the process, and
        installs its signal handlers.
    """
    if arguments is None:
        signals.install_signal_handlers()
        arguments = sys.argv[1:]
    name, *rest = arguments or ["help"]
    texts = {"--version": f"jaxproto {jaxproto.__version__}\n"}
    texts |= dict.fromkeys(("-h", "--help", "help"), usage())
    if name in texts:
        with _errors_in_one_line():
            sys.stdout.write(texts[name])
            sys.exit(0 if arguments else 1)
    call(name, f"jaxproto {name}", rest)


def call(name: str, prog: str, arguments: Sequence[str]):
    """Calls one command and exits with its code.

    Args:
      prog: what the user typed, for messages.
    """
    with _errors_in_one_line():
        name = choose_from("command", name, COMMANDS)
        Path.cwd()  # raises an error if the folder was deleted
        command = pkgutil.resolve_name(COMMANDS[name][0])
        words = [_expand_home(word) for word in arguments]
        sys.exit(command(prog, import_flag.import_files(words)))


def _expand_home(word: str) -> str:
    """Expands ~ in --FLAG=~/PATH, which shells leave; fields expand their own."""
    flag, equals, value = word.partition("=")
    if not flag.startswith("--") or "." in flag:
        return word
    return flag + equals + os.path.expanduser(value)


@contextlib.contextmanager
def _errors_in_one_line() -> Iterator[None]:
    """Prints errors of the user in one line, without a traceback, and ends the process.

    The process ends silently if the reader of its output stops early, as `head` does.
    """
    try:
        try:
            yield
        finally:
            sys.stdout.flush()
    except UserError as e:
        sys.exit(f"error: {e}")
    except OSError as e:
        works = _output_works()
        if isinstance(e, BrokenPipeError) and not works:
            sys.exit(128 + signal.SIGPIPE)
        if e.errno == errno.ENAMETOOLONG:
            sys.exit(f"error: {shorten(str(e.filename))}: {e.strerror}. Shorten it.")
        if e.errno == errno.ENOENT and not e.filename:  # only from `Path.cwd()`
            sys.exit("error: the current folder is gone: change to another one.")
        if e.errno not in DISK_ERRORS:
            raise
        what = f"cannot write {e.filename or 'the output'}: {e.strerror}"
        sys.exit(f"error: {what}. Make room there; the same command then goes on.")
    except KeyboardInterrupt as e:  # in a process without our signal handlers
        hint = str(e) or signals.exit_hint()
        sys.stderr.write(": ".join(filter(None, ["interrupted", hint])) + "\n")
        sys.exit(130)


def _output_works() -> bool:
    """Returns whether the standard output can be written; otherwise discards it."""
    try:
        sys.stdout.flush()
        poll = select.poll()
        poll.register(sys.stdout, 0)
        lost = bool(poll.poll(0))  # also detects a closed pipe if nothing was buffered
    except io.UnsupportedOperation:  # without a file descriptor
        return True
    except OSError:
        lost = True
    if lost:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return not lost

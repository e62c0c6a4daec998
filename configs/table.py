"""One cell of a published table, with the setting and hyper-parameters of its paper.

    python configs/table.py                     # all tables
    python configs/table.py protonorm1          # its cells: command, printed number
    python main.py --config=configs/table.py:tinyproto1,cifar100-fedtgp

All runs of a table as commands, with a folder each, and what is given besides:

    python configs/table.py protonorm1 --all --seeds=0,1,2 --config.rounds=20 | sh

`:reading=paper` and `:reading=code` take the methods as their papers state them or as
their released code has them, instead of the defaults, which are the same for all:

    python configs/table.py protonorm1:reading=paper --all
    python main.py --config=configs/table.py:tinyproto1,cifar100-fedtgp:reading=code

Then `python -m jaxproto compare WORKDIR...` shows the printed number beside ours.
The full settings take hours to days on a CPU. The averages over data sets (RefProtoFL,
Table 2) are those of its cells; `compare` makes them.
"""

import shlex
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence

from jaxproto.cli.argparse_types import Parser
from jaxproto.errors import UserError, choose_from
from jaxproto.reporting.compare import paper_tables

READING = "reading="


def get_config(arg: str = "protonorm1,cifar10-protonorm-dirichlet-alpha0.1"):
    """The configuration of a cell; `arg` is TABLE,CELL or TABLE,CELL:reading=NAME."""
    cell, reading = split(arg)
    table, _, name = cell.partition(",")
    return paper_tables.configuration(table, name, reading)


def split(arg: str) -> tuple[str, str]:
    """What is named, and its reading, "" where none is given.

    Raises:
      UserError: something else stands behind the colon.
    """
    named, _, rest = arg.partition(":")
    if rest and not rest.startswith(READING):
        raise UserError(f"{rest!r} is no reading: write :reading=paper or code.")
    reading = rest.removeprefix(READING)
    return named, reading and choose_from("reading", reading, ("code", "paper"))


def listing(arg: str) -> str:
    """One line per cell: its command, and what the paper prints."""
    return "\n".join(f"{_command(arg, n)}{_printed(row)}" for n, row in _rows(arg))


def series(arg: str, seeds: Sequence[int], more: Sequence[str] = ()) -> str:
    """One line per seed and cell, the first seed of all first.

    Args:
      arg: as of `listing`: TABLE or TABLE:reading=NAME.
      seeds: of every cell.
      more: flags that every command gets.
    """
    table, reading = split(arg)
    folder = f"runs/{'-'.join(filter(None, (table, reading)))}"
    return "\n".join(
        " ".join(
            (
                _command(arg, name),
                f"--config.seed={seed}",
                f"--workdir={folder}/{name}-{seed}",
                *map(shlex.quote, more),
            )
        )
        + _printed(row)
        for seed in seeds
        for name, row in _rows(arg)
    )


def _rows(arg):
    return paper_tables.cells_of_table(
        choose_from("table", split(arg)[0], paper_tables.TABLES)
    ).items()


def _command(arg, name):
    table, colon, reading = arg.partition(":")
    return f"python main.py --config=configs/table.py:{table},{name}{colon}{reading}"


def _printed(row):
    return f"  # {row.mean or 'diverged'}{row.std and ' ± ' + row.std}"


def main(argv: Sequence[str]) -> str:
    """The text that the arguments ask for.

    Raises:
      UserError: an argument cannot be used.
    """
    about = __doc__.split("\n")[0]
    parser = Parser(prog="python configs/table.py", description=about)
    parser.add_argument("tables", nargs="*", metavar="TABLE[:reading=paper|code]")
    parser.add_argument("--all", action="store_true", help="every run as a command")
    parser.add_argument("--seeds", type=_seeds, default=(0, 1, 2), metavar="0,1,2")
    args, more = parser.parse_known_args(argv)
    if wrong := [flag for flag in more if not (args.all and _sets(flag))]:
        parser.error(f"{wrong[0]!r} is no argument; --all takes --config.FIELD=VALUE")
    if not args.tables:
        return "\n".join(sorted(paper_tables.TABLES))
    if args.all:
        return "\n".join(series(t, args.seeds, more) for t in args.tables)
    return "\n".join(map(listing, args.tables))


def _sets(flag):
    return flag.startswith(("--config.", "--noconfig."))


def _seeds(text):
    try:
        return [int(word) for word in text.split(",")]
    except ValueError as e:
        raise ArgumentTypeError(f"{text!r} is no list of numbers as 0,1,2") from e


if __name__ == "__main__":
    try:
        sys.stdout.write(main(sys.argv[1:]) + "\n")
    except UserError as e:
        sys.exit(f"error: {e}")

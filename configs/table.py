"""One cell of a published table, with the setting and hyper-parameters of its paper.

    python configs/table.py                     # list the tables
    python configs/table.py protonorm1          # list its cells with published numbers
    python main.py --config=configs/table.py:tinyproto1,cifar100-fedtgp

Print all runs of a table as commands, each with its own work directory. Further flags
are passed on to every command:

    python configs/table.py protonorm1 --all --seeds=0,1,2 --config.rounds=20 | sh

`cps_pairs` has pairs of CPS, PPA and CPKD. According to Section 5.2 of the paper, no
pair outperforms all three together.

By default, all methods have one common reading. `:reading=paper` implements each method
as its paper describes it, `:reading=code` as its released code does:

    python configs/table.py protonorm1:reading=paper --all
    python main.py --config=configs/table.py:tinyproto1,cifar100-fedtgp:reading=code

`python -m jaxproto compare WORKDIR...` shows the published numbers next to the results,
and computes the averages over data sets (RefProtoFL, Table 2) from the cells. The full
settings take hours to days on a CPU.
"""

import shlex
import sys
from argparse import ArgumentTypeError
from collections.abc import Sequence

from jaxproto.cli.argparse_types import Parser
from jaxproto.errors import UserError, choose_from
from jaxproto.papers import tables

READING = "reading="


def get_config(arg: str = "protonorm1,cifar10-protonorm-dirichlet-alpha0.1"):
    """Returns the configuration of TABLE,CELL or TABLE,CELL:reading=NAME."""
    cell, reading = split(arg)
    table, _, name = cell.partition(",")
    return tables.configuration(table, name, reading)


def split(arg: str) -> tuple[str, str]:
    """Splits NAME:reading=READING into its name and its reading, "" by default.

    Raises:
      UserError: the text after the colon is not a reading.
    """
    name, _, rest = arg.partition(":")
    if rest and not rest.startswith(READING):
        raise UserError(f"{rest!r} is no reading: write :reading=paper or code.")
    reading = rest.removeprefix(READING)
    return name, reading and choose_from("reading", reading, ("code", "paper"))


def listing(arg: str) -> str:
    """Returns one line per cell: its command and its published number."""
    return "\n".join(f"{_command(arg, n)}{_printed(row)}" for n, row in _rows(arg))


def series(arg: str, seeds: Sequence[int], more: Sequence[str] = ()) -> str:
    """Returns one command per seed and cell, with all cells of the first seed first.

    Args:
      arg: TABLE or TABLE:reading=NAME.
      seeds: Seeds of every cell.
      more: Flags to add to every command.
    """
    table, reading = split(arg)
    folder = f"runs/{'-'.join(filter(None, (table, reading)))}"
    lines = []
    for seed in seeds:
        for name, row in _rows(arg):
            own = f"--config.seed={seed}", f"--workdir={folder}/{name}-{seed}"
            words = _command(arg, name), *own, *map(shlex.quote, more)
            lines.append(" ".join(words) + _printed(row))
    return "\n".join(lines)


def _rows(arg):
    """Returns the names of the cells of TABLE[:reading=NAME] with their rows."""
    table = choose_from("table", split(arg)[0], tables.TABLES)
    return tables.cells_of_table(table).items()


def _command(arg, name):
    table, colon, reading = arg.partition(":")
    return f"python main.py --config=configs/table.py:{table},{name}{colon}{reading}"


def _printed(row):
    """Returns a shell comment with the published number of a cell."""
    missing = "diverged" if "failed" in row.variant else "not printed"
    return f"  # {row.mean or missing}{row.std and ' ± ' + row.std}"


def main(argv: Sequence[str]) -> str:
    """Returns the output for command line arguments.

    Raises:
      UserError: an argument is invalid.
    """
    about = __doc__.split("\n")[0]
    parser = Parser(prog="python configs/table.py", description=about)
    parser.add_argument("tables", nargs="*", metavar="TABLE[:reading=paper|code]")
    parser.add_argument("--all", action="store_true", help="every run as a command")
    parser.add_argument(
        "--seeds", type=_parse_seeds, default=(0, 1, 2), metavar="0,1,2"
    )
    args, more = parser.parse_known_args(argv)
    passed_on = ("--config.", "--noconfig.") if args.all else ()
    if wrong := [flag for flag in more if not flag.startswith(passed_on)]:
        parser.error(f"{wrong[0]!r} is no argument; --all takes --config.FIELD=VALUE")
    if not args.tables:
        return "\n".join(sorted(tables.TABLES))
    if args.all:
        return "\n".join(series(t, args.seeds, more) for t in args.tables)
    return "\n".join(map(listing, args.tables))


def _parse_seeds(text):
    try:
        return [int(word) for word in text.split(",")]
    except ValueError as e:
        raise ArgumentTypeError(f"{text!r} is no list of numbers as 0,1,2") from e


if __name__ == "__main__":
    try:
        sys.stdout.write(main(sys.argv[1:]) + "\n")
    except UserError as e:
        sys.exit(f"error: {e}")

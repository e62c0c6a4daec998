"""Finished runs side by side: one table of methods by data set and rule."""

import argparse
import math
import sys
from collections.abc import Sequence

from jaxproto.cli import table_output
from jaxproto.cli.argparse_types import Parser, new_file
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.reporting import compare
from jaxproto.reporting.compare import (
    columns,
    measures,
    ranks,
    rendering,
    significance,
    tidy,
)
from jaxproto.reporting.compare.run_groups import SeedGroup


def main(prog: str, arguments: Sequence[str]):
    """Prints or writes what the arguments ask for.

    Raises:
      UserError: an argument, a work directory or the file to write cannot be used.
    """
    args = parse_args(prog, arguments)
    print_comparison(
        compare.group_by_seed(map(compare.load, _runs(args.workdirs))), args
    )


def parse_args(prog: str, arguments: Sequence[str]) -> argparse.Namespace:
    """The arguments.

    Raises:
      UserError: one is none, or two contradict each other.
    """
    args = _parser(prog).parse_args(arguments)
    if args.test and not args.against:
        raise UserError(
            f"--test={args.test} says how --against tests: give --against=best or a "
            "method too."
        )
    if args.out is not None and args.out == args.tidy:
        raise UserError(f"--out and --tidy are both {args.out}: name two files.")
    return args


def print_comparison(groups: Sequence[SeedGroup], args: argparse.Namespace):
    """Prints or writes the table of these groups; the seeds too."""
    kept = {
        "average": args.average,
        "rules": args.rule,
        "metric": args.metric,
        "ddof": args.ddof,
    }
    made = compare.table(
        groups,
        statistics=args.statistic or ("best", "final"),
        columns=args.columns,
        target=args.target,
        against=args.against,
        test=args.test or "t",
        rank=args.ranks or "",
        **kept,
    )
    how = {"transpose": args.transpose, "siunitx": args.siunitx}
    text = compare.render(made, args.format, **how)
    if args.tidy is not None:
        found = compare.rows(groups, **kept)
        seeds = tidy.to_csv(found.pairs, found.rules, found.measure)
        atomic.write(args.tidy, seeds.encode())
        sys.stderr.write(f"seed by seed: {args.tidy}\n")
    notes = made.notes if args.format == "csv" else ()
    if args.out is not None:
        atomic.write(args.out, text.encode())
        text = f"written to {args.out}\n"
    table_output.print_text(text, notes)


def _parser(prog: str) -> Parser:
    parser = Parser(prog=prog, description=__doc__)
    add = parser.add_argument
    add("workdirs", nargs="+", metavar="WORKDIR")
    add("--format", choices=rendering.FORMATS, default="text")
    add("--transpose", action="store_true", help="a column per method")
    add("--siunitx", action="store_true", help="numbers in S columns; of latex")
    add("--out", type=new_file, help="write there")
    add(
        "--tidy",
        type=new_file,
        help="also write a CSV there: a row per run, rule, average and statistic",
    )
    _of_numbers(parser)
    add(
        "--columns",
        type=_kinds,
        default=[],
        metavar="LIST",
        help=f"only these kinds, joined by commas: {', '.join(columns.KINDS)}",
    )
    add("--target", type=_number, help="rounds and MB until there, such as 90 (%%)")
    add("--against", default="", help="p of a paired test against this row, or best")
    add(
        "--test", choices=significance.TESTS, help="which, by --against; t unless given"
    )
    add("--ranks", choices=ranks.SHOWN, help="the average rank, or all ranks too")
    return parser


def _of_numbers(parser: argparse.ArgumentParser):
    """Adds what says which number of a run is meant."""
    add = parser.add_argument
    add(
        "--statistic",
        choices=[*measures.STATISTICS],
        action="append",
        default=[],
        help="of the rounds, a column each; best and final unless given",
    )
    add("--average", choices=[*measures.AVERAGES], default="pooled")
    add("--rule", action="append", default=[], help="only this one")
    add("--metric", default=measures.ACCURACY, help="of the records")
    add(
        "--ddof",
        type=int,
        choices=(0, 1),
        default=0,
        help="of standard deviations over seeds: their divisor is n - ddof",
    )


def _number(text: str) -> float:
    """The type of an argument: a finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is no number such as 90")
    return number


def _kinds(text: str) -> list[str]:
    """The type of an argument: words joined by commas."""
    return [word.strip() for word in text.split(",")]


def _runs(workdirs: Sequence[str]) -> list[str]:
    """Those that hold a run; says of each other that it is passed over."""
    found = [path for path in workdirs if compare.is_run(path)]
    for path in workdirs:
        if found and path not in found:
            sys.stderr.write(f"passed over, for it holds no run: {path}\n")
    return found or list(workdirs[:1])  # which says what a run is

"""Table of finished runs: methods by data set and prediction rule."""

import argparse
import math
import sys
from collections.abc import Sequence

from jaxproto.cli import table_output
from jaxproto.cli.argparse_types import Parser, new_file
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.lab import compare
from jaxproto.lab.compare import (
    columns,
    frames,
    measures,
    ranks,
    rendering,
    significance,
)
from jaxproto.lab.compare.run_groups import SeedGroup


def main(prog: str, arguments: Sequence[str]):
    """Prints or writes the table."""
    args = _parser(prog).parse_args(arguments)
    if args.test and not args.against:
        raise UserError(
            f"--test={args.test} is the test of --against: give --against=best or a "
            "method too."
        )
    if args.out is not None and args.out == args.tidy:
        raise UserError(f"--out and --tidy are both {args.out}: name two files.")
    needs = "" if args.target is None else "evaluations"
    runs = frames.read_runs(args.workdirs, args.rounds, needs)
    print_comparison(compare.group_by_seed(runs), args)


def print_comparison(groups: Sequence[SeedGroup], args: argparse.Namespace):
    """Prints or writes the table of these groups; --tidy writes a row per run."""
    table = compare.table(
        groups,
        statistics=args.statistic or ("best", "final"),
        averages=args.average or tuple(measures.AVERAGES),
        rules=args.rule,
        metric=args.metric,
        ddof=args.ddof,
        columns=args.columns,
        target=args.target,
        against=args.against,
        test=args.test or "t",
        rank=args.ranks or "",
    )
    width = table_output.terminal_width() if args.out is None else 0
    options = {"transpose": args.transpose, "siunitx": args.siunitx, "width": width}
    text = compare.render(table, args.format, **options)
    if args.tidy is not None:
        seeds = frames.by_seed_frame(table.request)
        atomic.write(
            args.tidy, seeds.to_csv(index=False, lineterminator="\r\n").encode()
        )
        sys.stderr.write(f"seed by seed: {args.tidy}\n")
    notes = table.notes if args.format == "csv" else ()
    if args.out is not None:
        atomic.write(args.out, text.encode())
        text = f"written to {args.out}\n"
    table_output.print_text(text, notes)


def _parser(prog: str) -> Parser:
    parser = Parser(prog=prog, description=__doc__)
    add = parser.add_argument
    add("workdirs", nargs="+", metavar="WORKDIR", help="of a run or a sweep")
    add("--format", choices=rendering.FORMATS, default="text")
    add("--transpose", action="store_true", help="a column per method")
    add("--siunitx", action="store_true", help="S columns, with --format=latex")
    add("--out", type=new_file, help="file to write instead of printing")
    about = "also write a CSV there: a row per run, rule, average and statistic"
    add("--tidy", type=new_file, help=about)
    _add_measure(parser)
    about = f"only these kinds, joined by commas: {', '.join(columns.KINDS)}"
    add("--columns", type=_parse_words, default=[], metavar="LIST", help=about)
    add("--target", type=_parse_number, help="rounds and MB until this accuracy (%%)")
    add("--against", default="", help="p of a paired test against this row, or best")
    add("--test", choices=significance.TESTS, help="test of --against; default t")
    add("--ranks", choices=ranks.SHOWN, help="the average rank, or all ranks too")
    return parser


def _add_measure(parser: argparse.ArgumentParser):
    """Adds the arguments that choose the number which is compared."""
    add = parser.add_argument
    names = [*measures.STATISTICS]
    about = "a column of each run; repeatable, default best and final"
    add("--statistic", choices=names, action="append", default=[], help=about)
    names = [*measures.AVERAGES]
    about = "over test examples or clients; repeatable, default both"
    add("--average", choices=names, action="append", default=[], help=about)
    add("--rounds", type=int, help="runs as they were after so many rounds")
    add("--rule", action="append", default=[], help="only this prediction rule")
    add("--metric", default=measures.ACCURACY, help="entry of the records")
    about = "divisor n - ddof of standard deviations over seeds"
    add("--ddof", type=int, choices=(0, 1), default=0, help=about)


def _parse_number(text: str) -> float:
    """Parses an argument that is a finite number."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 90")
    return number


def _parse_words(text: str) -> list[str]:
    """Parses an argument that is words joined by commas."""
    return [word.strip() for word in text.split(",")]

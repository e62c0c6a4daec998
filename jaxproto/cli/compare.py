"""Finished runs side by side: one table of methods by data set and rule."""

import sys
from collections.abc import Sequence

from jaxproto import compare
from jaxproto.cli import formats
from jaxproto.cli.arguments import Parser, new_file
from jaxproto.compare import rendering, tables
from jaxproto.data import files


def main(prog: str, arguments: Sequence[str]):
    """Prints or writes what the arguments ask for.

    Raises:
      UserError: an argument, a work directory or the file to write cannot be used.
    """
    parser = Parser(prog=prog, description=__doc__)
    parser.add_argument("workdirs", nargs="+", metavar="WORKDIR")
    parser.add_argument("--format", choices=rendering.FORMATS, default="text")
    rounds, clients = [*tables.STATISTICS], [*tables.AVERAGES]
    parser.add_argument(
        "--statistic",
        choices=rounds,
        action="append",
        default=[],
        help="of the rounds, a column each; best and final unless given",
    )
    parser.add_argument("--average", choices=clients, default="pooled")
    parser.add_argument("--rule", action="append", default=[], help="only this one")
    parser.add_argument("--out", type=new_file, help="write there")
    args = parser.parse_args(arguments)
    made = compare.table(
        compare.groups(map(compare.load, _runs(args.workdirs))),
        statistics=args.statistic or ("best", "final"),
        average=args.average,
        rules=args.rule,
    )
    text = compare.render(made, args.format)
    notes = made.notes if args.format == "csv" else ()
    if args.out is None:
        formats.put(text, notes)
        return
    files.write(args.out, text.encode())
    formats.put(f"written to {args.out}\n", notes)


def _runs(workdirs: Sequence[str]) -> list[str]:
    """Those that hold a run; says of each other that it is passed over."""
    found = [path for path in workdirs if compare.is_run(path)]
    for path in workdirs:
        if found and path not in found:
            sys.stderr.write(f"passed over, for it holds no run: {path}\n")
    return found or list(workdirs[:1])  # which says what a run is

"""One self-contained HTML page about runs, finished or not, or about a sweep."""

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxproto.cli.argparse_types import Parser
from jaxproto.io import atomic
from jaxproto.reporting import html
from jaxproto.reporting.html.prototypes import WHICH


def main(prog: str, arguments: Sequence[str]):
    """Writes the page that the arguments ask for.

    Raises:
      UserError: an argument, a work directory or the file to write cannot be used.
    """
    parser = Parser(prog=prog, description=__doc__)
    several = "of runs, or folders that hold some, as that of a sweep"
    parser.add_argument("workdirs", nargs="+", metavar="WORKDIR", help=several)
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    parser.add_argument(
        "--overwrite", action="store_true", help="even a file that is no report"
    )
    parser.add_argument(
        "--prototypes",
        choices=WHICH,
        default=WHICH[0],
        help="runs whose checkpoint is read, of those that differ in the seed alone",
    )
    parser.add_argument("--data_dir", default="", help="where the data set is now")
    args = parser.parse_args(arguments)
    html.check(args.out, args.overwrite)
    now = datetime.datetime.now(datetime.UTC)
    made = html.render_page(
        args.workdirs, f"{now:%Y-%m-%d %H:%M} UTC", args.prototypes, args.data_dir
    )
    html.write(args.out, made.html)
    sys.stderr.writelines(f"left out: {path}: {why}\n" for path, why in made.left_out)
    size = atomic.format_bytes(args.out.stat().st_size)
    sys.stdout.write(
        f"{made.runs} run{'s' * (made.runs != 1)}: written to {args.out} ({size})\n"
    )

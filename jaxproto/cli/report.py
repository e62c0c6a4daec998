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
    """Writes the page."""
    parser = Parser(prog=prog, description=__doc__)
    about = "work directory of a run, or a folder of several, such as a sweep's"
    parser.add_argument("workdirs", nargs="+", metavar="WORKDIR", help=about)
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE")
    parser.add_argument(
        "--overwrite", action="store_true", help="replace a file that is not a report"
    )
    parser.add_argument(
        "--prototypes",
        choices=WHICH,
        default=WHICH[0],
        help="runs whose checkpoint is read, among those that differ only in the seed",
    )
    parser.add_argument("--data_dir", default="", help="folder of a moved data set")
    args = parser.parse_args(arguments)
    html.check(args.out, args.overwrite)
    now = datetime.datetime.now(datetime.UTC)
    page = html.render_page(
        args.workdirs, f"{now:%Y-%m-%d %H:%M} UTC", args.prototypes, args.data_dir
    )
    html.write(args.out, page.html)
    sys.stderr.writelines(f"left out: {path}: {why}\n" for path, why in page.left_out)
    sys.stderr.writelines(f"prototypes: {note}\n" for note in page.notes)
    size = atomic.format_bytes(args.out.stat().st_size)
    sys.stdout.write(
        f"{page.runs} run{'s' * (page.runs != 1)}: written to {args.out} ({size})\n"
    )

"""One self-contained HTML page about runs, finished or not, or about a sweep."""

import datetime
import sys
from collections.abc import Sequence
from pathlib import Path

from jaxproto.cli.argparse_types import Parser
from jaxproto.errors import UserError
from jaxproto.io import atomic
from jaxproto.lab import html
from jaxproto.lab.html.document import MARK
from jaxproto.lab.html.prototypes import WHICH

NEAR = 1000  # first bytes of a page, which have its mark


def main(prog: str, arguments: Sequence[str]):
    """Writes the page."""
    parser = Parser(prog=prog, description=__doc__)
    add = parser.add_argument
    about = "work directory of a run, or a folder of several, such as a sweep's"
    add("workdirs", nargs="+", metavar="WORKDIR", help=about)
    add("--out", type=Path, default=Path("report.html"), metavar="FILE")
    add("--overwrite", action="store_true", help="replace a file that is not a report")
    about = "runs whose checkpoint is read, among those that differ only in the seed"
    add("--prototypes", choices=WHICH, default=WHICH[0], help=about)
    add("--data_dir", default="", help="folder of a moved data set")
    args = parser.parse_args(arguments)
    _check(args.out, args.overwrite)
    now = datetime.datetime.now(datetime.UTC)
    page = html.render_page(
        args.workdirs, f"{now:%Y-%m-%d %H:%M} UTC", args.prototypes, args.data_dir
    )
    atomic.write(args.out, page.html.encode("utf-8", "backslashreplace"))
    sys.stderr.writelines(f"left out: {path}: {why}\n" for path, why in page.left_out)
    sys.stderr.writelines(f"prototypes: {note}\n" for note in page.notes)
    size = atomic.format_bytes(args.out.stat().st_size)
    sys.stdout.write(
        f"{page.runs} run{'s' * (page.runs != 1)}: written to {args.out} ({size})\n"
    )


def _check(path: Path, overwrite: bool):
    """Raises UserError unless a page may be written to a file.

    Args:
      path: File to write.
      overwrite: Whether any file may be replaced; earlier pages always may.
    """
    if path.suffix.lower() not in (".html", ".htm"):
        raise UserError(f"{path} does not end in .html: give an HTML file to write.")
    if not path.parent.is_dir():
        raise UserError(f"cannot write {path}: its folder does not exist. Make it.")
    try:
        if kind := atomic.file_type(path):
            raise UserError(f"cannot write {path}: it is {kind}. Name another file.")
        with path.open("rb") as file:
            is_page = MARK.encode() in file.read(NEAR)
    except FileNotFoundError:
        return
    except OSError as e:
        why = e.strerror
        raise UserError(f"cannot write {path}: {why}. Choose another file.") from e
    if not is_page and not overwrite:
        raise UserError(
            f"{path} is there already and is no page of this command: name another "
            "file, or give --overwrite."
        )
